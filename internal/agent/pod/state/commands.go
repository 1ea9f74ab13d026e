package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/shim"
)

// The commands in a guest. They name files of the shim.
const (
	SetupID = "setup"
	MainID  = "main"
	// initPrefix and otherPrefix name those of init containers, and of containers beside
	// the main one.
	initPrefix, otherPrefix = "init-", "c-"
	// AnswerID is none of the attempt's own: it tells that the guest agent answers.
	AnswerID = "answer"
)

// RunsCommand reports that the main container is a command in the guest. Otherwise it
// is the VM itself.
func RunsCommand(p *corev1.Pod) bool { return IsCommand(p.Spec.Containers[0]) }

// IsCommand reports that the container is a command in the guest, and not the VM itself.
func IsCommand(c corev1.Container) bool { return len(c.Command) > 0 || len(c.Args) > 0 }

// CommandIDs are the commands of one attempt that run one after the other, in their order:
// those of containers that run beside one another are not among them.
func CommandIDs(p *corev1.Pod, setup bool) []string {
	var ids []string
	if setup {
		ids = append(ids, SetupID)
	}
	for i := range p.Spec.InitContainers {
		if at := (Place{Init: true, Index: i}); !at.IsSidecar(p) {
			ids = append(ids, at.Command(0))
		}
	}
	if RunsCommand(p) && !Several(p) {
		ids = append(ids, MainID)
	}
	return ids
}

// ContainerOf is the container that a command belongs to, and its place. What is set up for
// all counts as the first one's.
func ContainerOf(p *corev1.Pod, id string) (corev1.Container, Place) {
	at, _, ok := placeOf(p, id)
	if !ok && id == SetupID {
		at = places(p)[0]
	}
	return at.In(p), at
}

// CommandProgress is how far the commands of an attempt have come.
type CommandProgress struct {
	// ID of the first command that has not succeeded, or of the last one; empty when
	// there are none.
	ID    string
	Begun bool
	Exit  *shim.CommandEnd
}

// Succeeded reports that a command has ended with exit code 0.
func Succeeded(e *shim.CommandEnd) bool { return e != nil && e.Outcome == shim.Exited && e.Code == 0 }

// ProgressOf reads the commands in their order.
func ProgressOf(ids []string, read func(id string) (bool, *shim.CommandEnd, error)) (CommandProgress, error) {
	var s CommandProgress
	for _, id := range ids {
		begun, ended, err := read(id)
		if err != nil {
			return CommandProgress{}, err
		}
		if s = (CommandProgress{ID: id, Begun: begun, Exit: ended}); !Succeeded(ended) {
			return s, nil
		}
	}
	return s, nil
}

// NeedsNoGuestAgent reports that the VM is the container, and that nothing but what admission adds to
// every Pod wants to be mounted in it.
func NeedsNoGuestAgent(p *corev1.Pod) bool {
	mounts := mountsOf(p)
	return !RunsCommand(p) && len(p.Spec.InitContainers) == 0 &&
		len(mounts) > 0 && !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return !volume.Injected(m) })
}

func mountsOf(p *corev1.Pod) []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		mounts = append(mounts, c.VolumeMounts...)
	}
	return mounts
}

// GuestAgentNeed says what a command needs the guest agent for.
func GuestAgentNeed(p *corev1.Pod, id string) string {
	if id == SetupID && slices.ContainsFunc(mountsOf(p), func(m corev1.VolumeMount) bool { return !volume.Injected(m) }) {
		return "its volumes"
	}
	c, _ := ContainerOf(p, id)
	return "the command of container " + c.Name
}
