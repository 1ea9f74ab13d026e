package state

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Back-off of pulls and restarts, as a kubelet has it: 10 s doubling to 300 s; a
// container that ran for ten minutes starts anew.
const (
	backOffFirst = 10 * time.Second
	backOffMost  = 300 * time.Second
	backOffReset = 10 * time.Minute
)

// PullDelay is the wait after the n-th failure in a row, counted from 1.
func PullDelay(n int) time.Duration {
	d := backOffFirst
	for i := 1; i < n && d < backOffMost; i++ {
		d *= 2
	}
	return min(d, backOffMost)
}

// restartDelay is the wait after the n-th end in a row, counted from 1: the first
// restart does not wait.
func restartDelay(n int) time.Duration {
	if n <= 1 {
		return 0
	}
	return PullDelay(n - 1)
}

// BackOffMessage is a kubelet's, of a container that waits for its restart.
func BackOffMessage(p *corev1.Pod, container string, delay time.Duration) string {
	return fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, container, nameOf(p))
}

// BackOffEvent is what a kubelet's event says of it.
func BackOffEvent(p *corev1.Pod, container string) string {
	return fmt.Sprintf("Back-off restarting failed container %s in pod %s", container, nameOf(p))
}

// nameOf is a Pod as a kubelet's messages have it.
func nameOf(p *corev1.Pod) string { return fmt.Sprintf("%s_%s(%s)", p.Name, p.Namespace, p.UID) }
