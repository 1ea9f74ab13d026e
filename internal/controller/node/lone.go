package node

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/memo"
)

// lone remembers by name since when Nodes were seen without a Machine. What is
// forgotten with the process makes a Node stay longer.
type lone struct{ memo.Memo[string, sighting] }

type sighting struct {
	uid types.UID
	at  time.Time
}

// since is when the Node was first seen alone: now, if it was not before.
func (l *lone) since(n *corev1.Node, now time.Time) time.Time {
	return l.Change(n.Name, func(seen *sighting) {
		if seen.uid != n.UID {
			*seen = sighting{n.UID, now}
		}
	}).at
}
