package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ProbedBefore is what the status says that probes have found of the containers that run,
// by container ID: an agent that was restarted goes on from there.
func ProbedBefore(list []corev1.ContainerStatus) map[string]Probed {
	found := map[string]Probed{}
	for _, s := range list {
		if s.State.Running != nil && s.ContainerID != "" {
			found[s.ContainerID] = Probed{Started: s.Started != nil && *s.Started, Ready: s.Ready}
		}
	}
	return found
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

// MainContainerID is the ID of the main container in an attempt.
func MainContainerID(r Record) string { return containerID(r.VMName(), "") }

// RestartedAsSuccess says that an exit is followed by a restart though the API takes a
// success under OnFailure for the last word: the container was ended for its probes.
func (e Exit) RestartedAsSuccess(policy corev1.RestartPolicy) bool {
	return e.Unhealthy && e.Code == 0 && policy == corev1.RestartPolicyOnFailure
}
