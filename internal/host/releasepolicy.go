package host

import (
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// ReleasePolicy says what becomes of a Machine's host: the annotation's word, else
// the spec's, else Terminate for a server that was ordered for it and Recycle for
// one of the pool. Unknown is the annotation's value when it is no policy; it
// counts for nothing then.
func ReleasePolicy(m *infrav1.ScalewayAppleSiliconMachine, ordered bool) (policy infrav1.ReleasePolicy, unknown string) {
	value, annotated := m.Annotations[infrav1.ReleasePolicyAnnotation]
	for _, known := range []infrav1.ReleasePolicy{infrav1.Recycle, infrav1.Terminate, infrav1.Detach} {
		if annotated && strings.EqualFold(strings.TrimSpace(value), string(known)) {
			return known, ""
		}
	}
	if annotated {
		unknown = value
	}
	switch {
	case m.Spec.ReleasePolicy != "":
		return m.Spec.ReleasePolicy, unknown
	case ordered:
		return infrav1.Terminate, unknown
	}
	return infrav1.Recycle, unknown
}
