package status

import (
	"errors"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IsGone reports that a request for a Pod, with its UID, has failed because there is none of the
// name, or another one. Only the API server itself says so: a webhook may answer with the same
// codes, and so may a proxy, and the Pod is there.
func IsGone(err error, pod string) bool {
	var failed apierrors.APIStatus
	if !errors.As(err, &failed) {
		return false
	}
	s := failed.Status()
	if s.Details == nil || apierrors.IsUnexpectedServerError(err) || s.Details.Name != pod || s.Details.Kind != "pods" && s.Details.Kind != "Pod" || s.Details.Group != "" || strings.HasPrefix(s.Message, "admission webhook ") {
		return false
	}
	switch s.Reason {
	case metav1.StatusReasonNotFound:
		return true
	case metav1.StatusReasonConflict:
		return strings.Contains(s.Message, "UID in precondition") || strings.Contains(s.Message, "UID in the precondition")
	case metav1.StatusReasonInvalid:
		// A patch may not change the UID.
		return slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
	}
	return false
}
