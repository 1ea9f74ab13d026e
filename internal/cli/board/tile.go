package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/cost"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// tile is a Mac of the pool.
type tile struct {
	// ID is the element's.
	ID    string
	Host  string
	Short string
	Phase string
	Mood  string
	Type  string
	// Owner is the Machine that has it, [namespace/]name.
	Owner string
	// Guests are the Pods that run on it, and Slots is how many it takes.
	Guests []string
	Slots  int64
	Age    string
	Floor  string
	Price  string
	// Why is what keeps it out of the pool, or how its Machine is, where its phase does not
	// say it, and whether that is paused.
	Why string
}

// tilesOf are the Macs in the order of their names, which is no order of trouble: a tile
// stays where it is.
func tilesOf(s *snapshot.Snapshot) []tile {
	guests, slots := show.Guests(s), slotsOf(s)
	machines := map[string]*infrav1.ScalewayAppleSiliconMachine{}
	for i := range s.Machines {
		machines[s.Machines[i].Namespace+"/"+s.Machines[i].Name] = &s.Machines[i]
	}
	tiles := make([]tile, 0, len(s.Hosts))
	for i := range s.Hosts {
		h := &s.Hosts[i]
		t := tile{
			ID: "host-" + h.Name, Host: h.Name, Short: short(h), Phase: string(h.Status.Phase), Mood: moodWord(show.HostMood(h)),
			Type: h.Status.Server.Type, Age: since(s.At, h.CreationTimestamp.Time), Floor: floor(h, s.At), Why: why(h),
		}
		if price, known := cost.PriceOf(t.Type); known {
			t.Price = price.Hour.String() + "/h"
		}
		if claim := h.Spec.ClaimRef; claim != nil {
			t.Owner, t.Guests, t.Slots = claim.Name, guests[claim.Name], slots[claim.Name]
			t.addMachine(s, machines[claim.Namespace+"/"+claim.Name])
		}
		tiles = append(tiles, t)
	}
	slices.SortFunc(tiles, func(a, b tile) int { return cmp.Compare(a.Host, b.Host) })
	return tiles
}

// addMachine takes up how the Machine of a Mac in use is: a Mac is a Machine's also where
// it has lost its power, or where somebody has paused the Machine.
func (t *tile) addMachine(s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) {
	if m == nil {
		return
	}
	if t.Phase == string(infrav1.HostInUse) && show.PhaseOf(s, m) != "Running" {
		t.Mood = moodWord(show.MachineMood(show.PhaseOf(s, m)))
		t.Why = cmp.Or(t.Why, show.PhaseOf(s, m))
	}
	if c := show.PauseOf(s, m); c != nil {
		t.Why = strings.TrimPrefix(t.Why+", "+c.Reason, ", ")
		if t.Mood == moodWord(screen.Good) {
			t.Mood = moodWord(screen.Busy)
		}
		if ready := meta.FindStatusCondition(show.Conditions(s, m), infrav1.NodeReadyCondition); ready != nil && show.Unhealthy(*ready) && show.PhaseOf(s, m) == "Running" {
			t.Mood, t.Why = moodWord(screen.Bad), t.Why+", "+ready.Reason
		}
	}
}

// short is as much of a host's name as people tell Macs apart by: the zone, and the
// beginning of the server's id.
func short(h *infrav1.ScalewayAppleSiliconHost) string {
	const letters = 8
	name := strings.TrimPrefix(h.Name, h.Spec.Zone+"-")
	return h.Spec.Zone + " " + name[:min(len(name), letters)]
}

func slotsOf(s *snapshot.Snapshot) map[string]int64 {
	slots := map[string]int64{}
	for i := range s.Nodes {
		slots[s.Nodes[i].Name] = s.Nodes[i].Status.Allocatable.Pods().Value()
	}
	return slots
}

// Dots draw the guests: one for each, and a hollow one for each free slot.
func (t tile) Dots() string {
	return strings.Repeat("●", len(t.Guests)) + strings.Repeat("○", max(0, int(t.Slots)-len(t.Guests)))
}

// Says is the tile as a sentence, for who does not see it and for the filter.
func (t tile) Says() string {
	parts := []string{t.Host, t.Phase, t.Type}
	if t.Owner != "" {
		parts = append(parts, "of Machine "+t.Owner)
	}
	if t.Slots > 0 || len(t.Guests) > 0 {
		parts = append(parts, strings.TrimSuffix(fmt.Sprintf("%d of %d guests: %s", len(t.Guests), t.Slots, strings.Join(t.Guests, ", ")), ": "))
	}
	for _, part := range []string{t.Why, t.Floor} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

// floor is how long a Mac is paid for at least.
func floor(h *infrav1.ScalewayAppleSiliconHost, now time.Time) string {
	at := h.Status.Server.DeletableAt
	switch {
	case at == nil:
		return ""
	case !at.After(now):
		return "past its floor"
	}
	return "paid " + duration.HumanDuration(at.Sub(now)) + " more"
}

func why(h *infrav1.ScalewayAppleSiliconHost) string {
	c := meta.FindStatusCondition(h.Status.Conditions, infrav1.KeptOutCondition)
	if c == nil || c.Status != metav1.ConditionTrue || c.Reason == string(h.Status.Phase) {
		return "" // or the phase says it
	}
	return c.Reason
}

func since(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(then))
}

// moodWord is the class of an element.
func moodWord(m screen.Mood) string {
	switch m {
	case screen.Good:
		return "good"
	case screen.Busy:
		return "busy"
	case screen.Bad:
		return "bad"
	}
	return ""
}
