package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/test/agent/stage"
)

const (
	// look is the time between two looks at all processes.
	look = 40 * time.Millisecond
	// mostGuests is what Apple's licence allows.
	mostGuests = 2
)

// guard looks all the time at what must never be, on all Macs.
type guard struct {
	mu    sync.Mutex
	macs  map[string]*guarded
	force map[types.UID]bool
}

// guarded is one Mac as the guard sees it.
type guarded struct {
	mac    *stage.Mac
	breaks func(string)
	// suspects are what the last look found wrong: a guest may outlive its run by the
	// time a process takes to end.
	suspects []string
}

func newGuard() *guard { return &guard{macs: map[string]*guarded{}, force: map[types.UID]bool{}} }

func (g *guard) add(m *stage.Mac, breaks func(string)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.macs[m.Name] = &guarded{mac: m, breaks: breaks}
}

func (g *guard) forget(m *stage.Mac) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.macs, m.Name)
}

// forced says that the test itself takes a Pod's object away.
func (g *guard) forced(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.force[uid] = true
}

func (g *guard) watch(ctx context.Context) {
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			g.look()
		case <-ctx.Done():
			return
		}
	}
}

func (g *guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := stage.AllProcesses()
	for _, w := range g.macs {
		w.judge(slices.DeleteFunc(slices.Clone(all), func(p stage.Process) bool { return !p.Of(w.mac) }))
	}
}

// judge breaks a promise that two looks in a row find broken.
func (w *guarded) judge(processes []stage.Process) {
	found := wrongWith(processes)
	for _, what := range found {
		if slices.Contains(w.suspects, what) {
			w.breaks(what)
		}
	}
	w.suspects = found
}

// wrongWith is what may not be in one moment: two machines of a Pod, two runs of a
// machine, more guests than the licence allows.
func wrongWith(processes []stage.Process) []string {
	machines, guests := map[types.UID]map[string]bool{}, map[string]bool{}
	runs := map[string]int{}
	for _, p := range processes {
		uid, _, ours := stage.OwnerOf(p.Machine)
		switch {
		case p.Role == stage.RoleGuest:
			guests[p.Machine] = true
		case p.Role == stage.RoleRun:
			runs[p.Machine]++
		}
		if ours && (p.Role == stage.RoleRun || p.Role == stage.RoleGuest) {
			if machines[uid] == nil {
				machines[uid] = map[string]bool{}
			}
			machines[uid][p.Machine] = true
		}
	}
	var wrong []string
	for uid, m := range machines {
		if len(m) > 1 {
			wrong = append(wrong, fmt.Sprintf("Pod %s has several machines: %s", uid, strings.Join(slices.Sorted(maps.Keys(m)), ", ")))
		}
	}
	for m, n := range runs {
		if n > 1 && m != "" {
			wrong = append(wrong, fmt.Sprintf("machine %s is run %d times at once", m, n))
		}
	}
	if len(guests) > mostGuests {
		wrong = append(wrong, fmt.Sprintf("%d guests at once", len(guests)))
	}
	return wrong
}

// podGone looks, the moment a Pod's object is gone, whether its machine still runs.
func (g *guard) podGone(p *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.macs[p.Spec.NodeName]
	if w == nil || g.force[p.UID] {
		return
	}
	for _, left := range w.mac.Processes() {
		if left.Role == stage.RoleRun && strings.Contains(left.Machine, string(p.UID)) {
			w.breaks(fmt.Sprintf("Pod %s (%s) was deleted while %s ran", p.Name, p.UID, left.Machine))
		}
	}
	for _, left := range w.mac.Remains() {
		if strings.Contains(left, "machine ") && strings.Contains(left, string(p.UID)) {
			w.breaks(fmt.Sprintf("Pod %s was deleted before its %s", p.Name, left))
		}
	}
}
