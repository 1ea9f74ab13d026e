package rollout

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func now() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) time.Time { return now().Add(-d) }

// old is a Mac that is well and at another revision.
func old(name string) Machine {
	return Machine{Name: name, Applied: "old", ProvedAt: ago(24 * time.Hour), ReadySince: ago(24 * time.Hour)}
}

// done is a Mac that is well and at the revision for long.
func done(name string) Machine {
	m := old(name)
	m.Applied, m.PermitAt, m.ProvedAt = "new", ago(2*time.Hour), ago(2*time.Hour+time.Second)
	return m
}

func with(m Machine, change func(*Machine)) Machine {
	change(&m)
	return m
}

func turn(m *Machine)    { m.Permit, m.PermitAt = "new", ago(time.Minute) }
func failed(m *Machine)  { m.Tried, m.Failures, m.FailedAt = "new", 1, ago(time.Minute) }
func unready(m *Machine) { m.ReadySince, m.DownSince = time.Time{}, ago(time.Minute) }
func dead(m *Machine)    { m.ReadySince, m.DownSince = time.Time{}, ago(settleLimit) }
func drifted(m *Machine) { m.Drifted = true }
func held(m *Machine)    { m.Tried, m.HeldAt = "new", ago(time.Minute) }

func retried(m *Machine) { held(m); m.RetriedAt = m.HeldAt }

// filled has proved the revision twenty minutes ago, and its disk is short since its soak.
func filled(m *Machine) {
	m.PermitAt, m.ProvedAt, m.ShortSince = ago(25*time.Minute), ago(20*time.Minute), ago(19*time.Minute)
}

// restarted had its turn months ago, proved the revision again twenty minutes ago, and is not Ready.
func restarted(m *Machine) {
	dead(m)
	m.ProvedAt, m.PermitAt = ago(20*time.Minute), ago(90*24*time.Hour)
}

// soaking has just proved the revision in its turn.
func soaking(m *Machine) {
	m.Permit, m.PermitAt = "new", ago(2*time.Minute)
	m.Applied, m.ProvedAt = "new", ago(time.Minute)
}

func TestPlan(t *testing.T) {
	wide := infrav1.RolloutPolicy{MaxUnavailable: 3}
	for name, c := range map[string]struct {
		policy     infrav1.RolloutPolicy
		machines   []Machine
		begin, end []string
		halted     string
		why        string // what people read, where the case is about that
		again      time.Duration
	}{
		"nobody":                     {},
		"all done":                   {machines: []Machine{done("a"), done("b")}},
		"the canary first":           {policy: wide, machines: []Machine{old("b"), old("a"), old("c")}, begin: []string{"a"}},
		"no canary wanted":           {policy: infrav1.RolloutPolicy{MaxUnavailable: 2, Canary: ptr.To[int32](0)}, machines: []Machine{old("a"), old("b"), old("c")}, begin: []string{"a", "b"}},
		"after the canary":           {policy: wide, machines: []Machine{done("a"), old("b"), old("c"), old("d"), old("e")}, begin: []string{"b", "c", "d"}},
		"one at a time":              {machines: []Machine{done("a"), old("b"), old("c")}, begin: []string{"b"}},
		"the canary soaks":           {policy: wide, machines: []Machine{with(old("a"), soaking), old("b")}, again: time.Minute},
		"the canary is being pushed": {policy: wide, machines: []Machine{with(old("a"), turn), old("b")}, again: 59 * time.Minute},
		"a soak after a bootstrap, which has no turn": {
			machines: []Machine{with(old("a"), func(m *Machine) {
				m.Applied, m.ProvedAt, m.ReadySince = "new", ago(30*time.Second), ago(30*time.Second)
			})},
			again: 90 * time.Second,
		},
		"a soak that ends": {
			machines: []Machine{with(old("a"), func(m *Machine) { soaking(m); m.ProvedAt = ago(2 * time.Minute) }), old("b")},
			begin:    []string{"b"}, end: []string{"a"},
		},
		"no soak": {policy: infrav1.RolloutPolicy{Soak: &metav1.Duration{}}, machines: []Machine{with(old("a"), soaking), old("b")}, begin: []string{"b"}, end: []string{"a"}},
		"the soak begins again with Ready": {
			machines: []Machine{with(old("a"), func(m *Machine) {
				soaking(m)
				m.ProvedAt = ago(10 * time.Minute)
				m.PermitAt = ago(20 * time.Minute)
				m.ReadySince = ago(30 * time.Second)
			}), old("b")},
			again: 90 * time.Second,
		},
		"not Ready yet after the change": {machines: []Machine{with(old("a"), func(m *Machine) { soaking(m); unready(m) }), old("b")}, again: 16 * time.Minute},
		"off for longer than the soak, which does not count": {
			policy: wide,
			machines: []Machine{with(old("a"), func(m *Machine) {
				soaking(m)
				unready(m)
				m.PermitAt, m.ProvedAt, m.DownSince = ago(12*time.Minute), ago(10*time.Minute), ago(9*time.Minute)
			}), old("b")},
			again: 7 * time.Minute,
		},
		"the canary failed": {
			policy: wide, machines: []Machine{with(old("a"), func(m *Machine) { turn(m); failed(m) }), old("b")},
			end: []string{"a"}, halted: infrav1.ReasonCanaryFailed, why: "the revision failed on a, one of the first to try it", again: 29 * time.Minute,
		},
		"the canary is never well": {
			machines: []Machine{with(old("a"), func(m *Machine) {
				soaking(m)
				unready(m)
				m.PermitAt = ago(time.Hour)
				m.ProvedAt = ago(20 * time.Minute)
			}), old("b")},
			end: []string{"a"}, halted: infrav1.ReasonCanaryFailed, why: "the revision failed on a (its Node is not Ready), one of the first to try it", again: 27 * time.Minute,
		},
		"restarted long after their turns, and not well": {machines: []Machine{with(done("a"), restarted), with(done("b"), restarted), done("c")}},
		"the canary's disk ran short": {
			machines: []Machine{with(old("a"), func(m *Machine) { soaking(m); m.ShortSince = ago(30 * time.Second) }), old("b")},
			again:    16 * time.Minute,
		},
		"and at once with its turn": {
			machines: []Machine{with(old("a"), func(m *Machine) { soaking(m); m.ShortSince = m.PermitAt }), old("b")},
			again:    16 * time.Minute,
		},
		"the canary's disk stays short": {
			machines: []Machine{with(old("a"), func(m *Machine) { soaking(m); filled(m) }), old("b")},
			end:      []string{"a"}, halted: infrav1.ReasonCanaryFailed, why: "the revision failed on a (its disk is short), one of the first to try it", again: 27 * time.Minute,
		},
		"its disk was short before its turn": {
			machines: []Machine{with(old("a"), func(m *Machine) { soaking(m); filled(m); m.ShortSince = m.PermitAt.Add(-time.Second) }), old("b")},
			begin:    []string{"b"}, end: []string{"a"},
		},
		"its disk ran short after its soak": {
			machines: []Machine{with(old("a"), func(m *Machine) { soaking(m); filled(m); m.ShortSince = m.ProvedAt.Add(DefaultSoak) }), old("b")},
			begin:    []string{"b"}, end: []string{"a"},
		},
		"a disk that is short after a bootstrap, which has no turn": {
			machines: []Machine{with(done("a"), func(m *Machine) {
				m.PermitAt, m.ProvedAt = time.Time{}, ago(20*time.Minute)
				m.ShortSince = m.ProvedAt
			}), with(old("b"), turn), old("c")},
			policy: wide, again: 59 * time.Minute,
		},
		"the canary lost a guest": {
			machines: []Machine{with(old("a"), func(m *Machine) { soaking(m); m.Lost = 1 }), old("b")},
			end:      []string{"a"}, halted: infrav1.ReasonCanaryFailed, why: "the revision failed on a (guests died), one of the first to try it", again: 29 * time.Minute,
		},
		"a canary that lost a guest never counts as one that is well": {
			policy: wide, machines: []Machine{with(done("a"), func(m *Machine) { m.Lost, m.ProvedAt, m.PermitAt = 1, ago(40*time.Minute), ago(41*time.Minute) }), old("b"), old("c"), old("d")},
			begin: []string{"b"},
		},
		"after the cool-down another canary": {machines: []Machine{with(old("a"), func(m *Machine) { failed(m); m.FailedAt = ago(30 * time.Minute) }), old("b")}, begin: []string{"b"}},
		"also where it is at none":           {machines: []Machine{with(old("a"), func(m *Machine) { failed(m); m.Applied, m.FailedAt = "", ago(30*time.Minute) }), old("b")}, begin: []string{"b"}},
		"the only one is tried again":        {machines: []Machine{with(old("a"), func(m *Machine) { failed(m); m.FailedAt = ago(30 * time.Minute) })}, begin: []string{"a"}},
		"a failure of a former revision":     {machines: []Machine{with(old("a"), func(m *Machine) { failed(m); m.Tried = "former" })}, begin: []string{"a"}},
		"one failure later": {
			machines: []Machine{done("a"), with(old("b"), func(m *Machine) { turn(m); failed(m) }), old("c")},
			begin:    []string{"c"}, end: []string{"b"},
		},
		"two in a row": {
			machines: []Machine{done("a"), with(old("b"), failed), with(old("c"), func(m *Machine) { turn(m); failed(m) }), old("d")},
			end:      []string{"c"}, halted: infrav1.ReasonFailedInARow, why: "the revision failed on 2 Macs in a row, last on b", again: 29 * time.Minute,
		},
		"the second of two canaries failed": {
			policy:   infrav1.RolloutPolicy{MaxUnavailable: 3, Canary: ptr.To[int32](2)},
			machines: []Machine{done("a"), with(old("b"), func(m *Machine) { turn(m); failed(m) }), old("c")},
			end:      []string{"b"}, halted: infrav1.ReasonCanaryFailed, again: 29 * time.Minute,
		},
		"never well after a bootstrap, which has no turn": {
			machines: []Machine{with(old("a"), func(m *Machine) {
				dead(m)
				m.Applied, m.ProvedAt = "new", ago(20*time.Minute)
			}), old("b")},
			begin: []string{"b"},
		},
		"two, but not in a row": {machines: []Machine{
			with(old("b"), func(m *Machine) { failed(m); m.FailedAt = ago(20 * time.Minute) }),
			with(done("a"), func(m *Machine) { m.ProvedAt, m.PermitAt = ago(10*time.Minute), ago(11*time.Minute) }),
			with(old("c"), failed), old("d"),
		}, begin: []string{"d"}},
		"a halt takes turns back": {
			policy: wide, machines: []Machine{done("a"), with(old("b"), failed), with(old("c"), failed), with(old("d"), turn)},
			end: []string{"d"}, halted: infrav1.ReasonFailedInARow, again: 29 * time.Minute,
		},
		"a new revision ends a halt":                   {machines: []Machine{with(old("a"), func(m *Machine) { failed(m); m.Tried = "former" }), with(old("b"), func(m *Machine) { failed(m); m.Tried = "former" })}, begin: []string{"a"}},
		"paused":                                       {policy: infrav1.RolloutPolicy{Paused: true}, machines: []Machine{old("a"), with(done("b"), drifted)}},
		"paused in the middle":                         {policy: infrav1.RolloutPolicy{Paused: true}, machines: []Machine{done("a"), with(old("b"), turn)}, again: 59 * time.Minute},
		"another Mac is not Ready":                     {machines: []Machine{done("a"), old("b"), with(done("c"), unready)}, again: 14 * time.Minute},
		"another Mac is dead":                          {machines: []Machine{done("a"), old("b"), with(old("c"), dead)}, begin: []string{"b"}},
		"a dead Mac comes after those that live":       {machines: []Machine{done("a"), with(old("b"), dead), old("c")}, begin: []string{"c"}},
		"drift is mended beside a dead Mac":            {machines: []Machine{with(done("b"), drifted), with(done("c"), dead)}, begin: []string{"b"}},
		"nobody knows since when it is not Ready":      {machines: []Machine{done("a"), old("b"), with(done("c"), func(m *Machine) { m.ReadySince = time.Time{} })}},
		"nobody ever will, of one that is paused":      {machines: []Machine{done("a"), old("b"), with(done("c"), func(m *Machine) { m.ReadySince, m.Asleep = time.Time{}, true })}, begin: []string{"b"}},
		"the one that is not Ready takes nothing away": {machines: []Machine{done("a"), with(old("b"), unready), old("c")}, begin: []string{"b"}},
		"a sick canary, no room for others":            {machines: []Machine{with(old("a"), unready), old("b")}, begin: []string{"a"}},
		"never a sick canary where a well one may":     {policy: wide, machines: []Machine{with(old("a"), unready), old("b")}, begin: []string{"b"}},
		"a sick canary, none other":                    {machines: []Machine{with(old("a"), unready)}, begin: []string{"a"}},
		"put off":                                      {machines: []Machine{done("a"), with(old("b"), func(m *Machine) { turn(m); m.PermitAt = ago(2 * time.Minute); held(m) }), old("c")}, begin: []string{"c"}, end: []string{"b"}, again: 0},
		"put off, and tried again":                     {machines: []Machine{done("a"), with(old("b"), func(m *Machine) { held(m); m.HeldAt = ago(5 * time.Minute) })}, begin: []string{"b"}},
		"what has one more try is waited for":          {machines: []Machine{old("a"), with(old("b"), retried)}, again: 4 * time.Minute},
		"also after the canary":                        {policy: wide, machines: []Machine{done("a"), with(old("b"), retried), old("c")}, again: 4 * time.Minute},
		"and has it first": {machines: []Machine{old("a"), with(old("b"), func(m *Machine) {
			retried(m)
			m.HeldAt = ago(6 * time.Minute)
			m.RetriedAt, m.PermitAt = m.HeldAt, ago(7*time.Minute)
		})}, begin: []string{"b"}},
		"nobody waits for it once it is put off": {machines: []Machine{old("a"), with(old("b"), func(m *Machine) { retried(m); m.RetriedAt = ago(9 * time.Minute) })}, begin: []string{"a"}},
		"nor for one that is not Ready":          {machines: []Machine{old("a"), with(old("b"), func(m *Machine) { retried(m); dead(m) })}, begin: []string{"a"}},
		"nor once it failed again":               {policy: wide, machines: []Machine{done("a"), with(old("b"), func(m *Machine) { retried(m); m.Failures, m.FailedAt = 1, ago(time.Second) }), old("c")}, begin: []string{"c"}, again: 0},
		"nor once it is there":                   {policy: wide, machines: []Machine{with(done("a"), retried), old("b")}, begin: []string{"b"}},
		"nor while it sleeps":                    {machines: []Machine{old("a"), with(old("b"), func(m *Machine) { retried(m); m.Asleep = true })}, begin: []string{"a"}},
		"nor for ever": {machines: []Machine{old("a"), with(old("b"), func(m *Machine) {
			retried(m)
			m.HeldAt = ago(65 * time.Minute)
			m.RetriedAt, m.PermitAt = m.HeldAt, ago(time.Minute)
		})}, begin: []string{"a"}},
		"nor by a clock that is ahead": {machines: []Machine{old("a"), with(old("b"), func(m *Machine) { retried(m); m.HeldAt = ago(-time.Hour); m.RetriedAt = m.HeldAt })}, begin: []string{"a"}},
		"the canary that a former revision failed on": {machines: []Machine{old("a"), with(old("b"), func(m *Machine) {
			failed(m)
			m.Tried, m.Applied, m.PermitAt, m.ProvedAt = "former", "", ago(2*time.Minute), ago(time.Hour)
		})}, begin: []string{"b"}},
		"a former failure that went back": {machines: []Machine{old("a"), with(old("b"), func(m *Machine) {
			failed(m)
			m.Tried, m.PermitAt, m.ProvedAt = "former", ago(2*time.Minute), ago(time.Hour)
		})}, begin: []string{"a"}},
		"put off by a former revision": {machines: []Machine{old("a"), with(old("b"), func(m *Machine) {
			held(m)
			m.Tried, m.Applied, m.PermitAt, m.ProvedAt = "former", "", ago(2*time.Minute), ago(time.Hour)
		})}, begin: []string{"a"}},
		"put off, the only one":           {machines: []Machine{with(old("b"), held)}, again: 4 * time.Minute},
		"a turn that comes to nothing":    {machines: []Machine{with(old("a"), func(m *Machine) { turn(m); m.PermitAt = ago(time.Hour) }), old("b")}, begin: []string{"b"}, end: []string{"a"}},
		"asleep":                          {machines: []Machine{with(old("a"), func(m *Machine) { m.Asleep = true }), with(old("b"), func(m *Machine) { turn(m); m.Asleep = true })}, end: []string{"b"}},
		"mended first, one at a time":     {policy: wide, machines: []Machine{with(done("a"), drifted), with(done("b"), drifted), done("c")}, begin: []string{"a"}},
		"mended while others are updated": {policy: wide, machines: []Machine{with(done("a"), drifted), done("b"), old("c"), old("d"), old("e")}, begin: []string{"a", "c", "d"}},
		"mended during a halt": {
			machines: []Machine{with(done("a"), drifted), done("x"), with(old("b"), failed), with(old("c"), failed)},
			begin:    []string{"a"}, halted: infrav1.ReasonFailedInARow, again: 29 * time.Minute,
		},
		"mending goes on during a halt": {
			machines: []Machine{with(done("a"), func(m *Machine) { drifted(m); turn(m) }), done("x"), with(old("b"), failed), with(old("c"), failed)},
			halted:   infrav1.ReasonFailedInARow, again: 29 * time.Minute,
		},
		"two failed mendings halt nothing": {
			machines: []Machine{with(done("a"), func(m *Machine) { drifted(m); failed(m) }), with(done("b"), func(m *Machine) { drifted(m); failed(m) }), done("x"), old("y")},
			begin:    []string{"a", "y"}, policy: wide,
		},
		"a canary begins beside one that is mended": {
			policy:   wide,
			machines: []Machine{with(done("a"), func(m *Machine) { drifted(m); turn(m) }), old("b"), old("c")},
			begin:    []string{"b"}, again: 59 * time.Minute,
		},
		"mending failed": {machines: []Machine{done("x"), with(done("a"), func(m *Machine) { turn(m); drifted(m); failed(m) })}, end: []string{"a"}},
		"mended and soaking": {
			machines: []Machine{done("x"), with(done("a"), func(m *Machine) { turn(m); m.ProvedAt = ago(30 * time.Second) }), with(done("b"), drifted)},
			again:    90 * time.Second,
		},
		"a turn of a former revision goes on": {machines: []Machine{with(old("b"), func(m *Machine) { m.Permit, m.PermitAt = "former", ago(time.Minute) }), old("a")}, begin: []string{"b"}},
		"a turn of a former revision ends with a halt": {
			policy:   wide,
			machines: []Machine{with(old("a"), failed), with(old("b"), func(m *Machine) { m.Permit, m.PermitAt = "former", ago(time.Minute) })},
			end:      []string{"b"}, halted: infrav1.ReasonCanaryFailed, again: 29 * time.Minute,
		},
		"and where it is paused": {
			policy:   infrav1.RolloutPolicy{Paused: true},
			machines: []Machine{with(old("b"), func(m *Machine) { m.Permit, m.PermitAt = "former", ago(time.Minute) })},
			end:      []string{"b"},
		},
		"and where the Mac sleeps": {
			machines: []Machine{with(old("b"), func(m *Machine) { m.Permit, m.PermitAt, m.Asleep = "former", ago(time.Minute), true })},
			end:      []string{"b"},
		},
		"and where it has nothing to do": {
			machines: []Machine{with(done("b"), func(m *Machine) { m.Permit, m.PermitAt = "former", ago(time.Minute) })},
			end:      []string{"b"},
		},
		"a change late in its turn has time to prove itself": {
			machines: []Machine{with(old("a"), func(m *Machine) {
				soaking(m)
				unready(m)
				m.PermitAt, m.ProvedAt = ago(70*time.Minute), ago(5*time.Minute)
			}), old("b")},
			again: 7 * time.Minute,
		},
		"turns of a former revision, too many": {policy: wide, machines: []Machine{
			with(old("a"), func(m *Machine) { m.Permit = "former" }), with(old("b"), func(m *Machine) { m.Permit = "former" }),
		}, begin: []string{"a"}, end: []string{"b"}},
		"nobody knows what it runs": {machines: []Machine{done("a"), with(old("b"), func(m *Machine) { m.Applied = "" })}, begin: []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Plan(Input{Revision: "new", Policy: c.policy, Machines: c.machines, Now: now()})
			if diff := cmp.Diff(c.begin, got.Begin); diff != "" {
				t.Errorf("begin (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.end, got.End); diff != "" {
				t.Errorf("end (-want +got)\n%s", diff)
			}
			if got.Halted != c.halted {
				t.Errorf("halted = %q (%s), want %q", got.Halted, got.Why, c.halted)
			}
			if c.why != "" && got.Why != c.why {
				t.Errorf("halted as %q, want %q", got.Why, c.why)
			}
			if c.again != 0 && !got.Again.Equal(now().Add(c.again)) {
				t.Errorf("again in %s, want %s", got.Again.Sub(now()), c.again)
			}
			total := 0
			for _, n := range got.States {
				total += n
			}
			if total != len(c.machines) {
				t.Errorf("states = %v of %d Macs", got.States, len(c.machines))
			}
		})
	}
}

// No clock of another manager keeps a turn for ever: it is looked at again, and ends.
func TestEveryTurnEnds(t *testing.T) {
	for name, m := range map[string]Machine{
		"proved before it began": with(old("a"), func(m *Machine) {
			soaking(m)
			unready(m)
			m.PermitAt, m.ProvedAt = ago(time.Minute), ago(90*time.Second)
		}),
		"proved in times to come":     with(old("a"), func(m *Machine) { soaking(m); m.ProvedAt = ago(-100 * time.Hour) }),
		"begun in times to come":      with(old("a"), func(m *Machine) { turn(m); m.PermitAt = ago(-30 * time.Minute) }),
		"tried before it began":       with(old("a"), func(m *Machine) { turn(m); failed(m); m.FailedAt = ago(2 * time.Minute) }),
		"drifted, proved before that": with(done("a"), func(m *Machine) { turn(m); drifted(m) }),
	} {
		t.Run(name, func(t *testing.T) {
			at := now()
			for range 10 {
				d := Plan(Input{Revision: "new", Machines: []Machine{m, old("b")}, Now: at})
				if len(d.End) > 0 {
					if took := at.Sub(now()); took > 2*time.Hour {
						t.Errorf("the turn ends after %s", took)
					}
					return
				}
				if !d.Again.After(at) {
					t.Fatal("the turn neither ends nor is looked at again")
				}
				at = d.Again
			}
			t.Errorf("the turn still goes on at %s", at)
		})
	}
	far := with(old("a"), func(m *Machine) { turn(m); m.PermitAt = ago(-1000 * time.Hour) })
	if d := Plan(Input{Revision: "new", Machines: []Machine{far}, Now: now()}); len(d.End) != 1 {
		t.Error("a turn that begins next month goes on until then")
	}
}

func TestStates(t *testing.T) {
	machines := []Machine{
		done("updated"), with(old("soaking"), soaking), with(done("unready"), unready), with(old("updating"), turn), old("outdated"),
		with(done("drifted"), drifted), with(old("failed"), failed), with(old("held"), held),
	}
	got := Plan(Input{Revision: "new", Policy: infrav1.RolloutPolicy{Paused: true, MaxUnavailable: 9}, Machines: machines, Now: now()})
	for _, state := range States() {
		if got.States[state] != 1 {
			t.Errorf("%d Macs are %s, want one: %v", got.States[state], state, got.States)
		}
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Minute, 2: 2 * time.Minute, 5: 16 * time.Minute, 6: CoolDown, 100: CoolDown} {
		if got := Backoff(failures); got != want {
			t.Errorf("after %d failures %s, want %s", failures, got, want)
		}
	}
}

// A rollout that stands still for a Mac that is off says which one it is.
func TestPlanNamesWhatOthersWaitFor(t *testing.T) {
	for name, c := range map[string]struct {
		machines []Machine
		missed   []string
	}{
		"all are well":           {[]Machine{old("a"), old("b")}, nil},
		"one is off, put off":    {[]Machine{old("a"), with(with(old("b"), unready), held)}, []string{"b"}},
		"it is off for long":     {[]Machine{old("a"), with(with(old("b"), dead), held)}, nil},
		"one has its turn":       {[]Machine{old("a"), with(old("b"), turn)}, nil},
		"all but that are done":  {[]Machine{done("a"), with(with(old("b"), unready), held)}, nil},
		"off, and it is changed": {[]Machine{old("a"), with(with(old("b"), unready), turn)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := Plan(Input{Now: now(), Revision: "new", Machines: c.machines})
			if !slices.Equal(got.Missed, c.missed) {
				t.Errorf("missed %v, want %v", got.Missed, c.missed)
			}
		})
	}
}
