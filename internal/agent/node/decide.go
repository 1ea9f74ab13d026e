package node

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// action is what to do about the Node.
type action string

const (
	// actionKeep: the Node is ours and complete.
	actionKeep action = "keep"
	// actionClaim: the Node has no providerID yet; give it ours.
	actionClaim action = "claim"
	// actionCreate: there is none, and we may make one.
	actionCreate action = "create"
	// actionWait: there is none, and we may not.
	actionWait action = "wait"
	// actionRefuse: the Node is somebody else's.
	actionRefuse action = "refuse"
)

type decision struct {
	Action action
	// Why, for people, when the action is to wait or to refuse.
	Why string
}

// decide looks at the Node, nil when there is none, and at the permit, nil when
// none was delivered. used says whether the permit's id was used before.
func decide(n *corev1.Node, providerID string, permit *document.JoinPermit, used bool, now time.Time) decision {
	switch {
	case n != nil && n.Spec.ProviderID == providerID:
		return decision{Action: actionKeep}
	case n != nil && n.Spec.ProviderID == "":
		return decision{Action: actionClaim}
	case n != nil:
		return decision{actionRefuse, fmt.Sprintf("Node %s has providerID %s, this Mac is %s", n.Name, n.Spec.ProviderID, providerID)}
	case permit == nil || permit.ID == "":
		return decision{actionWait, "there is no Node and no join permit"}
	case used:
		return decision{actionWait, fmt.Sprintf("there is no Node and join permit %s was used before", permit.ID)}
	case !now.Before(permit.NotAfter):
		return decision{actionWait, fmt.Sprintf("there is no Node and join permit %s ended at %s", permit.ID, permit.NotAfter.UTC().Format(time.RFC3339))}
	}
	return decision{Action: actionCreate}
}
