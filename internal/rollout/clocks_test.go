package rollout

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// skews are how far the clock of the manager that led before is ahead.
func skews() []time.Duration {
	return []time.Duration{-10 * time.Minute, -30 * time.Second, 0, 30 * time.Second, 10 * time.Minute}
}

// record is a Machine with what managers write down of its turns.
type record struct {
	infrav1.ScalewayAppleSiliconMachine
}

func (r *record) permit(t *testing.T, at time.Time) {
	t.Helper()
	data, err := json.Marshal(Permit{At: PermitAt(&r.ScalewayAppleSiliconMachine, at)})
	if err != nil {
		t.Fatal(err)
	}
	r.Annotations = map[string]string{infrav1.UpdateAnnotation: "new", infrav1.TurnAnnotation: string(data)}
}

func (r *record) tried(at time.Time) *metav1.Time {
	recorded := metav1.NewTime(TriedAt(&r.ScalewayAppleSiliconMachine, at))
	return &recorded
}

// known is what a plan is told of it.
func (r *record) known(m Machine) Machine {
	u := r.Status.Update
	m.Permit, m.PermitAt = r.Annotations[infrav1.UpdateAnnotation], LastPermit(&r.ScalewayAppleSiliconMachine).At
	m.ProvedAt, m.Tried, m.HeldAt = Instant(u.ProvedAt), u.Revision, Instant(u.HeldAt)
	m.FailedAt, m.Failures = Instant(u.LastFailedAt), int(u.Failures)
	return m
}

func planned(at time.Time, machines ...Machine) Decision {
	return Plan(Input{Revision: "new", Policy: infrav1.RolloutPolicy{MaxUnavailable: 3}, Machines: machines, Now: at})
}

// A canary that is not well after its turn has failed, whichever clock said that the turn
// began: else the next Macs are spoilt one by one.
func TestAFailureInATurnCountsByAnyClock(t *testing.T) {
	for _, skew := range skews() {
		t.Run(skew.String(), func(t *testing.T) {
			var r record
			r.permit(t, now().Add(skew))
			r.Status.Update.ProvedAt = r.tried(now().Add(3 * time.Minute))
			canary := r.known(old("a"))
			canary.Applied, canary.ReadySince, canary.DownSince = "new", time.Time{}, now().Add(3*time.Minute)
			late := now().Add(3*time.Minute + settleLimit + DefaultSoak + max(0, skew))
			if d := planned(late, canary, old("b")); d.Halted != infrav1.ReasonCanaryFailed || len(d.Begin) > 0 {
				t.Errorf("halted %q, %q begin", d.Halted, d.Begin)
			}
		})
	}
}

// What another manager recorded before a turn is not laid to that turn.
func TestATurnBeginsAfterAllThatIsOnRecord(t *testing.T) {
	for _, skew := range skews() {
		t.Run(skew.String(), func(t *testing.T) {
			var r record
			r.Status.Update = infrav1.UpdateStatus{Revision: "new", HeldAt: r.tried(now().Add(skew))}
			r.permit(t, now().Add(HeldBackoff))
			if d := planned(now().Add(HeldBackoff), r.known(old("a"))); len(d.End) > 0 {
				t.Error("a turn ends at once for a try before it")
			}
			r = record{}
			r.Status.Update = infrav1.UpdateStatus{Revision: "new", ProvedAt: r.tried(now().Add(skew))}
			r.permit(t, now().Add(time.Minute))
			drift := with(r.known(old("a")), drifted)
			drift.Applied, drift.ReadySince, drift.DownSince = "new", time.Time{}, now()
			if d := planned(now().Add(40*time.Minute), drift); d.Halted != "" {
				t.Errorf("halted for what was proved before: %s", d.Why)
			}
		})
	}
}

// A time that no clock could be wrong by takes no other with it.
func TestTimesOutOfReachAreNotFollowed(t *testing.T) {
	var r record
	r.permit(t, now().AddDate(80, 0, 0))
	if got := r.tried(now()); !got.Time.Equal(now()) {
		t.Errorf("proved at %s", got)
	}
	r.Status.Update.ProvedAt = &metav1.Time{Time: now().AddDate(80, 0, 0)}
	if r.permit(t, now()); !LastPermit(&r.ScalewayAppleSiliconMachine).At.Equal(now()) {
		t.Errorf("permit %s", r.Annotations[infrav1.TurnAnnotation])
	}
}

// What a manager wrote down whose clock was days ahead holds nobody up for days.
func TestWhatIsToComeIsNotWaitedFor(t *testing.T) {
	for at, want := range map[time.Time]time.Time{
		now().Add(-time.Hour):                    now().Add(-time.Hour),
		now().Add(permitLimit):                   now().Add(permitLimit),
		now().Add(permitLimit + time.Nanosecond): {},
	} {
		if got := Reachable(&metav1.Time{Time: at}, now()); !got.Equal(want) {
			t.Errorf("%s: got %s, want %s", at, got, want)
		}
	}
	if !Reachable(nil, now()).IsZero() {
		t.Error("none is not zero")
	}
}

// A manager lets a proof soak by its own clock, whichever manager's clock wrote it down.
func TestASoakIsMeasuredByOneClock(t *testing.T) {
	for _, skew := range skews() {
		t.Run(skew.String(), func(t *testing.T) {
			canary := with(old("a"), soaking)
			canary.PermitAt, canary.ProvedAt, canary.ProvedSeen = ago(time.Minute).Add(skew), now().Add(skew), now()
			if d := planned(now().Add(DefaultSoak-time.Second), canary, old("b"), old("c")); len(d.Begin) > 0 || len(d.End) > 0 {
				t.Errorf("a second before the soak is over %q begin, %q end", d.Begin, d.End)
			}
			if d := planned(now().Add(DefaultSoak), canary, old("b"), old("c")); !slices.Equal(d.Begin, []string{"b", "c"}) || !slices.Equal(d.End, []string{"a"}) {
				t.Errorf("after the soak %q begin, %q end", d.Begin, d.End)
			}
		})
	}
}

// A manager that comes later does not let all soak once more.
func TestWhatIsProvedForLongSoaksNoMore(t *testing.T) {
	canary := with(done("a"), func(m *Machine) { m.ProvedAt, m.ProvedSeen = ago(DefaultSoak+clocksDiffer+time.Second), now() })
	if d := planned(now(), canary, old("b"), old("c")); !slices.Equal(d.Begin, []string{"b", "c"}) {
		t.Errorf("%q begin: the canary is to soak again", d.Begin)
	}
}
