package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// fleet is a world around the planner: Macs that do what their turn lets them, in
// random order, well or badly.
type fleet struct {
	t        *testing.T
	random   *rand.Rand
	now      time.Time
	revision string
	policy   infrav1.RolloutPolicy
	macs     []*Machine
	// bad revisions never work; flaky is the chance that a good one fails.
	bad   map[string]bool
	flaky float64
	log   []string
}

func newFleet(t *testing.T, seed uint64, size int) *fleet {
	f := &fleet{t: t, random: rand.New(rand.NewPCG(seed, 1)), now: now(), revision: "r0", bad: map[string]bool{}}
	for i := range size {
		f.macs = append(f.macs, &Machine{Name: fmt.Sprintf("mac-%02d", i), Applied: "r0", ProvedAt: ago(time.Hour), ReadySince: ago(time.Hour)})
	}
	return f
}

func (f *fleet) note(text string, args ...any) {
	f.log = append(f.log, f.now.Format("15:04:05 ")+fmt.Sprintf(text, args...))
}

func (f *fleet) input() Input {
	in := Input{Revision: f.revision, Policy: f.policy, Now: f.now}
	for _, i := range f.random.Perm(len(f.macs)) {
		in.Machines = append(in.Machines, *f.macs[i])
	}
	return in
}

// plan is a pass of the profile controller, and holds what it may not do.
func (f *fleet) plan() Decision {
	d := Plan(f.input())
	again := Plan(f.input())
	if fmt.Sprint(d) != fmt.Sprint(again) {
		f.fail("two managers decide differently: %+v and %+v", d, again)
	}
	for _, name := range d.End {
		f.note("turn of %s ends", name)
		f.mac(name).Permit = ""
	}
	for _, name := range d.Begin {
		m := f.mac(name)
		f.note("turn of %s begins", name)
		if f.policy.Paused && m.Permit != f.revision {
			f.fail("%s began while paused", name)
		}
		if d.Halted != "" && !(m.Applied == f.revision && m.Drifted) {
			f.fail("%s began past a halt", name)
		}
		m.Permit, m.PermitAt = f.revision, f.now
	}
	turns := 0
	for _, m := range f.macs {
		if m.Permit != "" {
			turns++
		}
	}
	if most := max(1, int(f.policy.MaxUnavailable)); turns > most {
		f.fail("%d Macs are being changed at once, %d may", turns, most)
	}
	return d
}

func (f *fleet) mac(name string) *Machine {
	for _, m := range f.macs {
		if m.Name == name {
			return m
		}
	}
	f.fail("no Mac %s", name)
	return nil
}

func (f *fleet) fail(text string, args ...any) {
	f.t.Helper()
	for _, line := range f.log[max(0, len(f.log)-40):] {
		f.t.Log(line)
	}
	f.t.Fatalf(text, args...)
}

// push is what the machine controller does in a turn.
func (f *fleet) push(m *Machine) {
	if m.Permit != f.revision || (m.Applied == f.revision && !m.Drifted) {
		return
	}
	if m.Tried == f.revision && f.now.Before(NotBefore(m.Failures, m.FailedAt, m.HeldAt)) {
		return
	}
	if m.Tried != f.revision {
		m.Tried, m.Failures, m.FailedAt, m.HeldAt = f.revision, 0, time.Time{}, time.Time{}
	}
	switch roll := f.random.Float64(); {
	case f.bad[f.revision] || roll < f.flaky:
		m.Failures, m.FailedAt = m.Failures+1, f.now
		f.note("%s failed", m.Name)
	case roll < f.flaky*2:
		m.HeldAt = f.now
		f.note("%s is put off", m.Name)
	default:
		m.Applied, m.ProvedAt, m.Drifted, m.Failures, m.HeldAt = f.revision, f.now, false, 0, time.Time{}
		m.ReadySince = f.now
		f.note("%s is at %s", m.Name, f.revision)
	}
}

// step lets one thing happen.
func (f *fleet) step() {
	f.now = f.now.Add(time.Duration(f.random.IntN(60)) * time.Second)
	switch f.random.IntN(3) {
	case 0:
		f.plan()
	default:
		f.push(f.macs[f.random.IntN(len(f.macs))])
	}
}

func (f *fleet) count(picks func(*Machine) bool) int {
	n := 0
	for _, m := range f.macs {
		if picks(m) {
			n++
		}
	}
	return n
}

// seeds says how many histories are played; a tenth of them when time is short.
func seeds(all uint64) uint64 {
	if testing.Short() {
		return all / 10
	}
	return all
}

// In random order and weather a rollout changes no more Macs at once than it may,
// begins nothing past a halt, and comes to its end.
func TestRolloutsComeToTheirEnd(t *testing.T) {
	for seed := range seeds(80) {
		f := newFleet(t, seed, 1+int(seed%12))
		f.flaky = float64(seed%4) * 0.1
		f.policy = infrav1.RolloutPolicy{
			MaxUnavailable: int32(1 + seed%3), Canary: ptr.To(int32(seed % 4)), Soak: &metav1.Duration{Duration: time.Duration(seed%3) * time.Minute},
		}
		f.revision = "r1"
		for i := range 40000 {
			f.step()
			if i%97 == 0 && i < 2000 {
				f.disturb()
			}
			if i == 2000 {
				f.calm()
			}
			if i > 2000 && f.count(func(m *Machine) bool { return m.Applied != f.revision || m.Drifted || m.Permit != "" }) == 0 {
				break
			}
		}
		left := f.count(func(m *Machine) bool { return m.Applied != f.revision || m.Drifted || m.Permit != "" })
		if left > 0 {
			f.fail("seed %d: %d Macs are not as they should be in the end", seed, left)
		}
	}
}

// disturb is the weather: other wishes, tampering, Nodes that come and go, pauses.
func (f *fleet) disturb() {
	m := f.macs[f.random.IntN(len(f.macs))]
	switch f.random.IntN(5) {
	case 0:
		f.revision = fmt.Sprintf("r%d", 1+f.random.IntN(3))
		f.note("revision %s is wanted", f.revision)
	case 1:
		m.Drifted = true
		f.note("%s is tampered with", m.Name)
	case 2:
		m.ReadySince, m.DownSince = time.Time{}, f.now
		f.note("%s is not Ready", m.Name)
	case 3:
		f.policy.Paused = !f.policy.Paused
	case 4:
		f.calm()
	}
}

// calm ends pauses, and brings every Node back.
func (f *fleet) calm() {
	f.policy.Paused = false
	for _, m := range f.macs {
		if m.ReadySince.IsZero() {
			m.ReadySince = f.now
		}
	}
}

// A revision that never works reaches one Mac before the first halt, and at most
// one more for each cool-down.
func TestABadRevisionStopsAtTheCanary(t *testing.T) {
	for seed := range seeds(40) {
		f := newFleet(t, seed, 10)
		f.policy.MaxUnavailable = 5
		f.revision = "bad"
		f.bad["bad"] = true
		tried := func() int { return f.count(func(m *Machine) bool { return m.Tried == "bad" }) }
		for f.now.Before(now().Add(CoolDown)) {
			f.step()
		}
		if got := tried(); got > 1 {
			f.fail("seed %d: %d Macs took a bad revision, want the canary alone", seed, got)
		}
		for f.now.Before(now().Add(4 * CoolDown)) {
			f.step()
		}
		if got := tried(); got < 1 || got > 4 {
			f.fail("seed %d: %d Macs took a bad revision in three cool-downs more", seed, got)
		}
		f.revision = "good"
		for f.now.Before(now().Add(12 * CoolDown)) {
			f.step()
		}
		if left := f.count(func(m *Machine) bool { return m.Applied != "good" }); left > 0 {
			f.fail("seed %d: %d Macs are not at the revision that mends it", seed, left)
		}
	}
}

// A rollout never hangs on hardware: beside a Mac that is dead, and put off whenever
// it has its turn, all others come to the revision, and drift is mended.
func TestADeadMacHoldsNobodyUp(t *testing.T) {
	for seed := range seeds(20) {
		f := newFleet(t, seed, 5)
		corpse := f.macs[seed%5]
		corpse.ReadySince, corpse.DownSince = time.Time{}, f.now
		f.revision = "r1"
		other := f.macs[(seed+1)%5]
		for i := range 3000 {
			f.now = f.now.Add(20 * time.Second)
			f.plan()
			m := f.macs[f.random.IntN(5)]
			if m != corpse {
				f.push(m)
			} else if m.Permit == f.revision {
				m.Tried, m.HeldAt = f.revision, f.now
			}
			if i == 1500 {
				other.Drifted = true
			}
		}
		if left := f.count(func(m *Machine) bool { return m != corpse && (m.Applied != "r1" || m.Drifted) }); left > 0 {
			f.fail("seed %d: %d Macs wait for a dead one", seed, left)
		}
		if !slices.ContainsFunc(f.log, func(line string) bool { return line[9:] == "turn of "+corpse.Name+" begins" }) {
			f.fail("seed %d: the dead one was never tried", seed)
		}
	}
}
