package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// check is made at rest, once a round. What must hold at every moment is the
// guard's and the recorder's.
func (h *history) check(ctx context.Context) {
	for _, rule := range h.seen.Broken() {
		if strings.Contains(rule, "/"+h.mac.Name+"-") {
			h.breaks(rule)
		}
	}
	h.checkCalls()
	h.checkMarks()
	h.checkDescriptors(ctx)
	if strings.Contains(h.mac.Log.String(), "WARNING: DATA RACE") {
		h.breaks("the race detector found a race in the agent")
	}
	if n := h.mac.Log.Count("panic:"); n > 0 {
		h.breaks("the agent panicked")
	}
}

// checkCalls reads tart's own journal: no machine is run again after a run of it
// that may have begun, and none is run twice at once.
func (h *history) checkCalls() {
	calls, err := h.mac.Calls()
	h.try(err)
	for _, twice := range secondRuns(calls) {
		h.breaks(twice)
	}
}

// secondRuns are runs of a machine that had been run before. A run that failed says
// so by its exit code, and its guest never was.
func secondRuns(calls []stage.Call) []string {
	var twice []string
	began := map[string]stage.Call{}
	for _, c := range calls {
		name := c.Machine()
		if c.Verb() != "run" || name == "" {
			continue
		}
		if before, again := began[name]; again && (before.End.IsZero() || before.Exit == 0 || before.End.After(c.Start)) {
			twice = append(twice, fmt.Sprintf("machine %s was run by %d, and again by %d", name, before.PID, c.PID))
		}
		began[name] = c
	}
	return twice
}

// marks are the files, on the Mac, in which a command says what may not be, and what that is.
func marks() map[string]string {
	return map[string]string{
		"hostpath/second-main":   "a main command was run again",
		"hostpath/beside-itself": "a container ran beside itself",
	}
}

func (h *history) checkMarks() {
	for file, what := range marks() {
		text, err := os.ReadFile(h.mac.Path(file))
		if err == nil {
			h.breaks(what + ": " + string(bytes.TrimSpace(text)))
		} else if !os.IsNotExist(err) {
			h.try(err)
		}
	}
}

const (
	// spareDescriptors is how many more than after the first round may be open: a
	// request may be on its way.
	spareDescriptors = 8
	// mostGoroutines an agent without Pods may have.
	mostGoroutines = 120
)

// checkDescriptors compares what the agent has open with the first round. Agents
// come and go: each has little time to leak, and at rest the same to hold.
func (h *history) checkDescriptors(ctx context.Context) {
	if len(h.mine(ctx)) > 0 {
		return
	}
	low := 0
	settled, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := stage.Await(settled, "few open files", func() bool {
		n, err := stage.Descriptors(h.mac.AgentPID())
		if err != nil {
			return true // it is starting, or gone: others see that
		}
		low = n
		return h.descriptors == 0 || n <= h.descriptors+spareDescriptors
	})
	if err != nil {
		h.breaks(fmt.Sprintf("the agent has %d open files at rest, it had %d", low, h.descriptors))
	}
	if h.descriptors == 0 {
		h.descriptors = low
	}
}

func (h *history) agentAlive() bool {
	for _, p := range h.mac.Processes() {
		if p.PID == h.mac.AgentPID() {
			return true
		}
	}
	return false
}

// healLicence does what the provider does for an empty Mac whose licence counts guests
// that are gone: it reboots it. A fault that refuses a start looks like that.
func (h *history) healLicence(ctx context.Context) {
	node, err := h.plane.Client.CoreV1().Nodes().Get(ctx, h.mac.Name, metav1.GetOptions{})
	if err != nil {
		h.try(err)
		return
	}
	leaked := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == "LicenseSlotsHealthy" && c.Reason == "SlotsLeaked"
	})
	if leaked && len(h.mine(ctx)) == 0 {
		h.losePower()
	}
}

// empty has no Pod left.
func (h *history) empty(ctx context.Context) {
	pods := h.mine(ctx)
	for i := range pods {
		h.remove(ctx, &pods[i], nil)
	}
	waiting, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	if err := stage.Await(waiting, "emptiness", func() bool { return len(h.mine(ctx)) == 0 }); err != nil {
		h.breaks("its Pods do not go in " + restTime.String())
	}
}

// end proves that all slots are free, and looks at what an agent without Pods still
// does.
func (h *history) end(ctx context.Context) {
	h.round++
	h.empty(ctx)
	h.healLicence(ctx)
	waiting, cancel := context.WithTimeout(ctx, restTime)
	defer cancel()
	for i := range mostGuests {
		p := h.mac.Pod(fmt.Sprintf("%s-last-%d", h.mac.Name, i), stage.Grace(1))
		h.say("creates %s", p.Name)
		_, err := h.plane.Client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
		h.try(err)
	}
	err := stage.Await(waiting, "both run", func() bool {
		running := 0
		for _, p := range h.mine(ctx) {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		return running == mostGuests
	})
	if err != nil {
		h.breaks("two Pods cannot run at the end: slots were not given back")
		return
	}
	h.rest(ctx)
	for pods := h.mine(ctx); len(pods) > 0 && waiting.Err() == nil; pods = h.mine(ctx) {
		h.rest(ctx)
	}
	h.checkGoroutines()
}

// checkGoroutines makes the agent tell its goroutines, which ends it.
func (h *history) checkGoroutines() {
	h.said = h.mac.Log.String()
	h.mac.Log.Reset()
	h.try(h.mac.EndAgent(syscall.SIGQUIT))
	dump := h.mac.Log.String()
	if n := strings.Count(dump, "\ngoroutine "); n == 0 || n > mostGoroutines {
		h.breaks(fmt.Sprintf("an agent without Pods has %d goroutines, want 1 to %d", n, mostGoroutines))
	}
	if n := strings.Count(dump, "agent/pod.(*worker)"); n > 0 {
		h.breaks(fmt.Sprintf("an agent without Pods has %d frames of workers", n))
	}
}
