package machine

import (
	"maps"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

const (
	// DefaultDrainTimeout is how long a Node is drained where the Machine does not say;
	// core would wait for ever, and a deletion must end.
	DefaultDrainTimeout = 10 * time.Minute

	// wipeTakes is how long a server takes from the release until it can be given back:
	// the Mac leaves, and is wiped in 20 to 45 minutes.
	wipeTakes = 45 * time.Minute

	// unneededFor is how long the autoscaler looks at an idle Node before it removes it,
	// by its default.
	unneededFor = 10 * time.Minute
)

// scaleDownDisabled is the value that the autoscaler obeys.
const scaleDownDisabled = "true"

// DrainTimeout is how long the Machine's Node may take to be drained.
func (s Snapshot) DrainTimeout() time.Duration {
	if s.Owner != nil {
		if seconds := ptr.Deref(s.Owner.Spec.Deletion.NodeDrainTimeoutSeconds, 0); seconds > 0 {
			return time.Duration(seconds) * time.Second
		}
	}
	return DefaultDrainTimeout
}

// ScaleDownHold is whether a Mac is to be held against a scale-down.
type ScaleDownHold struct {
	// Unknown: nothing is known of what is paid; the Node stays as it is.
	Unknown bool
	// Until is when it ends; zero: it is not held.
	Until time.Time
}

// HoldScaleDown says whether the autoscaler is kept from a Mac. It is while the vendor
// bills the Mac whether it is used or not, and the release would give it back: until a
// release that begins then has ended by the end of the billing floor. A Mac that goes
// back to the pool is billed on in any case, and free for others there.
func HoldScaleDown(s Snapshot, now time.Time) ScaleDownHold {
	m, h := s.Machine, s.Host
	switch {
	case m.Annotations[infrav1.AutoscaledAnnotation] != "true" || s.Leaving():
		return ScaleDownHold{}
	case h == nil:
		return ScaleDownHold{Unknown: true}
	}
	if policy, _ := host.ReleasePolicy(m, h.Spec.Record.Ordered || OrdersServer(m)); policy != infrav1.Terminate {
		return ScaleDownHold{}
	}
	server := h.Status.Server
	switch {
	case server.DeletionScheduled:
		return ScaleDownHold{}
	case server.DeletableAt == nil:
		return ScaleDownHold{Unknown: true}
	}
	until := server.DeletableAt.Add(-s.DrainTimeout() - wipeTakes - unneededFor)
	if !now.Before(until) {
		return ScaleDownHold{}
	}
	return ScaleDownHold{Until: until}
}

// HoldAnnotations are the annotations that a Node is to have. What somebody else says of
// its scale-down stays as it is, also where it takes the manager's place.
func HoldAnnotations(have map[string]string, hold ScaleDownHold) map[string]string {
	if hold.Unknown {
		return have
	}
	value, said := have[infrav1.ScaleDownDisabledAnnotation]
	_, ours := have[infrav1.HeldUntilAnnotation]
	theirs := said && (!ours || value != scaleDownDisabled)
	want := maps.Clone(have)
	if want == nil {
		want = map[string]string{}
	}
	switch {
	case theirs:
		delete(want, infrav1.HeldUntilAnnotation)
	case !hold.Until.IsZero():
		want[infrav1.ScaleDownDisabledAnnotation] = scaleDownDisabled
		want[infrav1.HeldUntilAnnotation] = hold.Until.UTC().Format(time.RFC3339)
	case ours:
		delete(want, infrav1.ScaleDownDisabledAnnotation)
		delete(want, infrav1.HeldUntilAnnotation)
	}
	return want
}
