package state

import "time"

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
