package cluster

import (
	"fmt"
	"time"
)

// Stage is a part of a build.
type Stage string

// The stages of a build, in order. Waiting replaces the next three when another builder does the work.
const (
	StageWaiting   Stage = "waiting"   // another builder compiles the same sources
	StageResolving Stage = "resolving" // downloading modules, finding out what must be compiled
	StageCompiling Stage = "compiling" // Done of Total packages were begun
	StageLinking   Stage = "linking"
	StageDone      Stage = "done"
)

// What a build takes, measured on two cores with an empty build cache: 567 CPU seconds for 2911 packages and the links
// of two binaries (18 s each, partly at the same time).
const (
	cpuPerPackage = 185 * time.Millisecond
	linkTime      = 25 * time.Second
)

// Progress is where a build stands.
type Progress struct {
	Stage Stage
	// Done of Total packages, where known. Total counts only what is not in Go's build cache.
	Done, Total int
	// Elapsed since the build began.
	Elapsed time.Duration
	// Remaining is an estimate; 0 where there is none.
	Remaining time.Duration
}

// String is the progress in a few words, for one line of a terminal.
func (p Progress) String() string {
	switch p.Stage {
	case StageWaiting:
		return "another build of the control plane is running, waiting for it"
	case StageResolving:
		return "downloading modules of the control plane (building it takes 5 to 10 minutes on two cores the first time)"
	case StageCompiling:
		return fmt.Sprintf("compiling the control plane: %d of %d packages, about %s left", p.Done, p.Total, roughly(p.Remaining))
	case StageLinking:
		return fmt.Sprintf("linking the control plane, about %s left", roughly(p.Remaining))
	case StageDone:
		return fmt.Sprintf("built the control plane in %s", p.Elapsed.Round(time.Second))
	}
	return string(p.Stage)
}

// roughly rounds as a person would say it.
func roughly(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", max(1, int(d.Round(5*time.Second)/time.Second)))
	}
	return fmt.Sprintf("%d min", int((d+30*time.Second)/time.Minute))
}

// remaining estimates from the measured cost at first, and more and more from this machine's own pace.
func remaining(done, total, cores int, compiling time.Duration) time.Duration {
	left := time.Duration(total - done)
	expected := left * cpuPerPackage / time.Duration(max(1, cores))
	if done == 0 || compiling <= 0 {
		return expected + linkTime
	}
	paced := left * (compiling / time.Duration(done))
	weight := time.Duration(total) // the share of the pace grows with the share that is done
	return (expected*left+paced*time.Duration(done))/weight + linkTime
}
