package profile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/rollout"
)

// counting counts what is read uncached.
type counting struct {
	client.Reader
	requests *int
}

func (c counting) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	*c.requests++
	return c.Reader.Get(ctx, key, o, opts...)
}

func (c counting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	*c.requests++
	return c.Reader.List(ctx, list, opts...)
}

// fleetOf is so many Macs at an old revision, each with its host.
func fleetOf(macs int) []client.Object {
	objects := []client.Object{builders()}
	for n := range macs {
		name := fmt.Sprintf("mac-%03d", n)
		h := host.New("fr-par-1", fmt.Sprintf("%08d-1111-4111-8111-111111111111", n), "")
		all := running(name, "builders", "old")
		m := all[0].(*infrav1.ScalewayAppleSiliconMachine)
		m.Spec.HostRef = &infrav1.HostReference{Name: h.Name, ClaimToken: "token"}
		h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: namespace, Name: name, Token: "token", UID: m.UID}
		objects = append(objects, append(all, h)...)
	}
	return objects
}

// A turn costs as many requests in a large fleet as in a small one: of a thousand Macs each has its turn, and if
// each of these asked for all of them, a roll-out would ask two million times.
func TestATurnAsksAsOftenWhateverTheFleetsSize(t *testing.T) {
	asked := map[int]int{}
	for _, macs := range []int{3, 60} {
		w := newWorld(t, fleetOf(macs)...)
		w.visit("builders") // notes on the Nodes what is kept on them, and begins the first turn
		name := w.turns()[0]
		w.prove(name, revision())
		w.visit("builders") // sees the proof
		w.pass(rollout.DefaultSoak)
		requests := 0
		w.r.Reader = counting{w.client, &requests}
		w.visit("builders")
		if turns := w.turns(); len(turns) != 1 || turns[0] == name {
			t.Fatalf("of %d Macs it is the turn of %q after that of %s", macs, turns, name)
		}
		asked[macs] = requests
	}
	if asked[3] != asked[60] || asked[3] == 0 {
		t.Errorf("a turn takes %d uncached requests of 3 Macs, and %d of 60", asked[3], asked[60])
	}
}

// For two hours after a turn a guest's end is laid to its charge. To list the Pods of each of these Macs with each
// news of any of them asks without end where the fleet is large.
func TestGuestsOfAMacWhoseTurnIsOverAreLookedForNowAndThen(t *testing.T) {
	objects := fleetOf(5)
	for _, o := range objects {
		if m, is := o.(*infrav1.ScalewayAppleSiliconMachine); is {
			m.Status.Applied.Revision = revision()
			m.Annotations = map[string]string{infrav1.TurnAnnotation: fmt.Sprintf(`{"at":%q,"guests":["guest"]}`, start().Add(-10*time.Minute).Format(time.RFC3339))}
		}
	}
	w := newWorld(t, objects...)
	looks := func() int {
		requests := 0
		w.r.Reader = counting{w.client, &requests}
		w.visit("builders")
		return requests
	}
	w.visit("builders") // notes on the Nodes what is kept on them
	w.pass(lossesKnown)
	if got := looks(); got != 5 {
		t.Errorf("%d looks at the Pods of 5 Macs", got)
	}
	if got := looks(); got != 0 {
		t.Errorf("%d looks a moment later", got)
	}
	if again := w.visit("builders").RequeueAfter; again <= 0 || again > lossesKnown {
		t.Errorf("the next looks are in %s", again)
	}
	w.down("mac-002", w.clock.Now())
	if got := looks(); got != 1 {
		t.Errorf("%d looks as a Mac went away", got)
	}
	m := w.machine("mac-001")
	m.Annotations[infrav1.UpdateAnnotation] = revision()
	w.update(m)
	w.status("mac-001", func(s *infrav1.ScalewayAppleSiliconMachineStatus) { s.Applied.Revision = "old" })
	for range 2 {
		if got := looks(); got != 1 {
			t.Errorf("%d looks while one of them has its turn", got)
		}
	}
	w.pass(lossesKnown)
	if got := looks(); got != 5 {
		t.Errorf("%d looks after a minute", got)
	}
}
