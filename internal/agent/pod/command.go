package pod

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/shim"
)

// The commands in a guest, in their order. They name files of the shim.
const (
	setupID = "setup"
	mainID  = "main"
)

// initID names the command of the i-th init container.
func initID(i int) string { return "init-" + strconv.Itoa(i) }

// commandMode: the main container is a command in the guest. Otherwise it is the
// machine itself.
func commandMode(p *corev1.Pod) bool {
	c := p.Spec.Containers[0]
	return len(c.Command) > 0 || len(c.Args) > 0
}

// commandIDs are the commands of one attempt, in their order.
func commandIDs(p *corev1.Pod, setup bool) []string {
	var ids []string
	if setup {
		ids = append(ids, setupID)
	}
	for i := range p.Spec.InitContainers {
		ids = append(ids, initID(i))
	}
	if commandMode(p) {
		ids = append(ids, mainID)
	}
	return ids
}

// containerOf is the container that a command belongs to: -1 is the main one. What
// is set up for all counts as the first one's.
func containerOf(p *corev1.Pod, id string) (corev1.Container, int) {
	for i, c := range p.Spec.InitContainers {
		if id == initID(i) || id == setupID {
			return c, i
		}
	}
	return p.Spec.Containers[0], -1
}

// standing is how far the commands of an attempt have come.
type standing struct {
	// ID of the first command that has not succeeded, or of the last one; empty when
	// there are none.
	ID    string
	Begun bool
	End   *shim.CommandEnd
}

func succeeded(e *shim.CommandEnd) bool { return e != nil && e.Outcome == shim.Exited && e.Code == 0 }

// standingOf reads the commands in their order.
func standingOf(ids []string, read func(id string) (bool, *shim.CommandEnd, error)) (standing, error) {
	var s standing
	for _, id := range ids {
		begun, ended, err := read(id)
		if err != nil {
			return standing{}, err
		}
		if s = (standing{ID: id, Begun: begun, End: ended}); !succeeded(ended) {
			return s, nil
		}
	}
	return s, nil
}
