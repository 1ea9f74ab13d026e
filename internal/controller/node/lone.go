package node

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lone remembers since when Nodes were seen without a Machine. What is forgotten
// with the process makes a Node stay longer.
type lone struct {
	mu    sync.Mutex
	first map[string]sighting
}

type sighting struct {
	uid types.UID
	at  time.Time
}

// since is when the Node was first seen alone: now, if it was not before.
func (l *lone) since(n *corev1.Node, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if seen, known := l.first[n.Name]; known && seen.uid == n.UID {
		return seen.at
	}
	if l.first == nil {
		l.first = map[string]sighting{}
	}
	l.first[n.Name] = sighting{n.UID, now}
	return now
}

func (l *lone) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.first, name)
}
