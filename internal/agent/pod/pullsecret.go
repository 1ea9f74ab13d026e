package pod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// tellMissing says once in each attempt which pull secrets of the Pod are not there:
// the pull goes on without them, and may need them.
func (w *worker) tellMissing(there []corev1.Secret) {
	var missing []string
	for _, ref := range w.current().Spec.ImagePullSecrets {
		if !slices.ContainsFunc(there, func(s corev1.Secret) bool { return s.Name == ref.Name }) {
			missing = append(missing, ref.Name)
		}
	}
	names := strings.Join(missing, ", ")
	told := fmt.Sprint(w.rec.Attempt, " ", names)
	if names == "" || told == w.toldMissing {
		return
	}
	w.toldMissing = told
	w.event(corev1.EventTypeWarning, "FailedToRetrieveImagePullSecret",
		"There is no Secret "+names+" in the Pod's namespace, which imagePullSecrets names; the image is pulled without")
}
