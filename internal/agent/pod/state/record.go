package state

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// vmPrefix marks VMs as ours.
const vmPrefix = "tk-"

// VMName is the name of a Pod's VM; a restart is another VM.
func VMName(uid types.UID, attempt int) string {
	return fmt.Sprintf("%s%s-%d", vmPrefix, uid, attempt)
}

// ParseVMName takes a name of ours apart; false for anybody else's.
func ParseVMName(name string) (types.UID, int, bool) {
	rest, ours := strings.CutPrefix(name, vmPrefix)
	dash := strings.LastIndex(rest, "-")
	if !ours || dash < 1 {
		return "", 0, false
	}
	attempt, err := strconv.Atoi(rest[dash+1:])
	if err != nil || attempt < 0 {
		return "", 0, false
	}
	return types.UID(rest[:dash]), attempt, true
}

// Step is how far an attempt has come. It is on the disk before what it names
// happens.
type Step string

// The steps of an attempt, in their order.
const (
	StepCreating Step = "creating" // the clone is being made
	StepStarting Step = "starting" // a shim is being started
	StepRunning  Step = "running"  // the VM was seen running
	StepEnded    Step = "ended"    // Outcome tells how
)

// Record is what must be known of a Pod after a crash.
type Record struct {
	UID       types.UID `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	// Attempt numbers VMs.
	Attempt int `json:"attempt"`
	// LegacyVM is the attempt's VM where the first system's agent started it.
	LegacyVM string `json:"former,omitempty"`
	// Crashes counts ends in a row, for the back-off.
	Crashes int `json:"crashes,omitempty"`
	// Failures counts ends in a row that the Mac is to blame for, and no container.
	Failures    int    `json:"failures,omitempty"`
	Step        Step   `json:"step"`
	Image       string `json:"image,omitempty"`
	ImageID     string `json:"imageID,omitempty"`
	BootSession string `json:"bootSession,omitempty"`
	// MemoryBytes that the VM was given; 0: not known.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// CloneBytes is what the VM's files took on their volume when they were cloned; the
	// rest is what the guest wrote. 0: not known.
	CloneBytes int64 `json:"cloneBytes,omitempty"`
	// Started is when the VM was seen running.
	Started time.Time `json:"started,omitzero"`
	// The main container.
	ContainerRecord
	// Inits are the init containers, Others those beside the main one, in their order.
	Inits  []ContainerRecord `json:"inits,omitempty"`
	Others []ContainerRecord `json:"others,omitempty"`
	// Ending is how far the end of the command is that runs; nil: it goes on.
	Ending *Ending `json:"ending,omitempty"`
	// Outcome is how the attempt ended.
	Outcome *Exit `json:"outcome,omitempty"`
	// Failed is why the Pod fails, where that is not for how a container ended; nil: it does not.
	Failed *FailedPod `json:"failed,omitempty"`
}

// FailedPod is why a Pod fails as a whole, as its status will say, and how its VM is to end.
type FailedPod struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Grace for the guest; negative: the Pod's own.
	Grace time.Duration `json:"grace"`
	// Disrupted: the Pod could have run, had it not been for this Mac.
	Disrupted bool `json:"disrupted,omitempty"`
}

// ContainerRecord is what a container has gone through.
type ContainerRecord struct {
	// Restarts counts the attempts before this one in which it ran, as the status does.
	Restarts int32 `json:"restarts"`
	// Begun and End are those of this attempt.
	Begun time.Time `json:"begun,omitzero"`
	Exit  *Exit     `json:"end,omitempty"`
	// LastExit is its end before this attempt, or before its command ran again in the same
	// guest.
	LastExit *Exit `json:"last,omitempty"`
	// Run numbers its commands in this attempt, and Ends counts ends in a row, for its
	// back-off, of a container that runs beside others.
	Run  int `json:"run,omitempty"`
	Ends int `json:"ends,omitempty"`
}

// next is the container in the next attempt.
func (l ContainerRecord) next() ContainerRecord {
	switch {
	case l.Exit != nil:
		return ContainerRecord{Restarts: l.Restarts + 1, LastExit: l.Exit, Ends: l.Ends}
	case !l.Begun.IsZero():
		return ContainerRecord{Restarts: l.Restarts + 1, LastExit: l.LastExit, Ends: l.Ends}
	}
	return ContainerRecord{Restarts: l.Restarts, LastExit: l.LastExit, Ends: l.Ends}
}

// VMName is the name of the attempt's VM.
func (r Record) VMName() string {
	if r.LegacyVM != "" {
		return r.LegacyVM
	}
	return VMName(r.UID, r.Attempt)
}

// ExitOrLost of an attempt that ended.
func (r Record) ExitOrLost() Exit {
	switch {
	case r.Outcome != nil:
		return *r.Outcome
	case r.LastExit != nil:
		// Written by an agent that knew of one container only.
		return *r.LastExit
	}
	return Exit{Code: codeLost, Reason: ReasonUnknown, Message: "the journal does not say how the VM ended"}
}

// hasBegun reports whether a container has begun in this attempt.
func (r Record) hasBegun() bool {
	return slices.ContainsFunc(r.containers(), func(l ContainerRecord) bool { return !l.Begun.IsZero() })
}

// MainsRan reports that each container that is none for initialization has begun, in this
// attempt or before.
func (r Record) MainsRan(p *corev1.Pod) bool {
	return !slices.ContainsFunc(Mains(p), func(at Place) bool {
		l := r.Container(at)
		return l.Begun.IsZero() && l.Exit == nil && l.LastExit == nil
	})
}

// MayRun reports that the attempt's VM may run.
func (r Record) MayRun() bool { return r.Step == StepRunning || r.Step == StepStarting }

// Ended is the record once e is known: all that runs beside the container that it is the
// end of has ended with the VM.
func (r Record) Ended(p *corev1.Pod, e Exit) Record {
	r.Step, r.Outcome = StepEnded, &e
	r = r.Clone()
	if e.Unstarted {
		// A VM may hold its lock before it turns out that it cannot start.
		r.Begun = time.Time{}
		return r
	}
	_, at := ContainerOf(p, e.CommandOf())
	if l := r.Container(at); l.Exit == nil || !Several(p) {
		l.Exit = &e
	}
	r.endInitsBefore(p, at, e)
	for _, at := range beside(p) {
		if l := r.Container(at); l.Exit == nil && !l.Begun.IsZero() {
			own := e.beside().ofContainer(p, r, at.Command(l.Run))
			l.Exit = &own
		}
	}
	return r
}

// endInitsBefore gives an end to init containers whose own was not noted before the VM ended.
// They have succeeded: else e would be the end of the first that had not.
func (r *Record) endInitsBefore(p *corev1.Pod, ended Place, e Exit) {
	for i, at := range places(p) {
		if at == ended {
			return
		}
		if l := r.Container(at); at.Init && !at.IsSidecar(p) && l.Exit == nil && !l.Begun.IsZero() {
			l.Exit = &Exit{
				Reason: ReasonCompleted, Of: at.Command(l.Run), VM: runName(r.VMName(), p.Spec.InitContainers[i].Name, l.Run),
				Started: l.Begun, Finished: e.Finished,
			}
		}
	}
}

// Next is the record of the attempt after this one. Of containers that run beside one
// another those do not run again that have ended for good.
func (r Record) Next(p *corev1.Pod) Record {
	r.Attempt++
	r.LegacyVM = ""
	r.Step, r.Started, r.Outcome, r.Ending = "", time.Time{}, nil, nil
	kept := beside(p)
	r = r.Clone()
	for _, at := range places(p) {
		l := r.Container(at)
		if slices.Contains(kept, at) && l.done(at.PolicyOf(p)) {
			l.Begun, l.Run = time.Time{}, 0
			continue
		}
		*l = l.next()
	}
	return r
}

// Turn is the command of the first container of the attempt that has not succeeded: of
// the main one after all init containers.
func (r Record) Turn(p *corev1.Pod) string {
	for _, id := range CommandIDs(p, false) {
		if _, at := ContainerOf(p, id); at.Init {
			if e := r.Container(at).Exit; e == nil || e.Code != 0 {
				return id
			}
		}
	}
	return MainID
}

// Fit makes room for all containers of the Pod.
func (r *Record) Fit(p *corev1.Pod) {
	r.Inits = append(r.Inits, make([]ContainerRecord, max(0, len(p.Spec.InitContainers)-len(r.Inits)))...)
	r.Others = append(r.Others, make([]ContainerRecord, max(0, len(p.Spec.Containers)-1-len(r.Others)))...)
}

// Container is the record of the container at a place, for which there must be room.
func (r *Record) Container(at Place) *ContainerRecord {
	switch {
	case at.Init:
		return &r.Inits[at.Index]
	case at.Index > 0:
		return &r.Others[at.Index-1]
	}
	return &r.ContainerRecord
}

// Clone shares nothing with r that changes.
func (r Record) Clone() Record {
	r.Inits, r.Others = slices.Clone(r.Inits), slices.Clone(r.Others)
	if r.Ending != nil {
		e := *r.Ending
		e.Others = maps.Clone(e.Others)
		r.Ending = &e
	}
	return r
}

// containers are the records of all, the main one last.
func (r Record) containers() []ContainerRecord {
	return append(slices.Concat(r.Inits, r.Others), r.ContainerRecord)
}

// Exit is how one attempt, or one container in it, ended, in the words of a
// container status.
type Exit struct {
	Code    int32  `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Unstarted: nothing of the Pod has run, so that this is no restart: the VM
	// did not start or ended before any container began, the firewall around it was not
	// proved, or its volumes could not be mounted. Reason is then what the Pod waits for.
	Unstarted bool `json:"limited,omitempty"`
	// Replaced: it was stopped for another image, and the restart policy has no say.
	Replaced bool `json:"replaced,omitempty"`
	// Unhealthy: it was ended because its startup or liveness probe failed.
	Unhealthy bool `json:"unhealthy,omitempty"`
	// Of is the command of the container that ended; empty: the only one of the main one.
	Of string `json:"init,omitempty"`
	// VM is the VM's name, with that of a container other than the main one.
	VM       string    `json:"machine,omitempty"`
	Started  time.Time `json:"started,omitzero"`
	Finished time.Time `json:"finished"`
}

// HasRun reports whether the API shows that one of the containers ran, AllRan that each did.
func HasRun(list []corev1.ContainerStatus) bool { return slices.ContainsFunc(list, hasRun) }

// AllRan is false where the API shows none.
func AllRan(list []corev1.ContainerStatus) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(s corev1.ContainerStatus) bool { return !hasRun(s) })
}

func hasRun(s corev1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
}

// HasEnded reports that the API shows the Pod in a terminal phase.
func HasEnded(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
