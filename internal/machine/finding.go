package machine

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finding is what a phase has to say in its condition. The zero value says nothing and
// leaves the condition as it is.
type Finding struct {
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// True is a condition that holds.
func True(reason string) Finding { return Finding{Status: metav1.ConditionTrue, Reason: reason} }

// False is a condition that does not hold.
func False(reason, message string, args ...any) Finding {
	return Finding{Status: metav1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(message, args...)}
}

// Unknown is a condition of which nobody can tell.
func Unknown(reason, message string, args ...any) Finding {
	return Finding{Status: metav1.ConditionUnknown, Reason: reason, Message: fmt.Sprintf(message, args...)}
}
