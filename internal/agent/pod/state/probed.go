package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ProbedBefore is what the status says that probes have found of the containers that run,
// by container: an agent that was restarted goes on from there.
func ProbedBefore(list []corev1.ContainerStatus) map[string]ProbedRun {
	found := map[string]ProbedRun{}
	for _, s := range list {
		if s.State.Running != nil && s.ContainerID != "" {
			found[s.Name] = ProbedRun{s.ContainerID, Probed{Started: s.Started != nil && *s.Started, Ready: s.Ready}}
		}
	}
	return found
}

// ProbedRun is what probes say of the run of a container that has this ID.
type ProbedRun struct {
	ID string
	Probed
}

// KillGrace is how long a container has to end by itself that is killed for its own
// failure: what its probe says, else the Pod, and never less than killLeast.
func KillGrace(p *corev1.Pod, ofProbe *int64) time.Duration {
	if ofProbe != nil {
		return max(killLeast, seconds(*ofProbe))
	}
	return max(killLeast, SpecGrace(p))
}

// killLeast is what a kubelet leaves a container in any case.
const killLeast = 2 * time.Second

// ContainerID is the ID of the container at a place, as it runs now.
func ContainerID(p *corev1.Pod, r Record, at Place) string {
	n := r.Container(at).Run
	if at.isMain() && n == 0 {
		return containerID(r.VMName())
	}
	return containerID(runName(r.VMName(), at.In(p).Name, n))
}

// RestartedAsSuccess says that an exit is followed by a restart though the API takes a
// success under OnFailure for the last word: the container was ended for its probes.
func (e Exit) RestartedAsSuccess(policy corev1.RestartPolicy) bool {
	return e.Unhealthy && e.Code == 0 && policy == corev1.RestartPolicyOnFailure
}
