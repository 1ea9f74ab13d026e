package stage0

import (
	"context"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/accept"
	"github.com/macfleet/macfleet/sandbox/mac"
)

// uncertain is a switch of the simulator that a Mac in one of its positions is known by.
type uncertain struct {
	set func(context.Context, *bench) error
	// skip what has nothing to do with it.
	skip []string
	// tells are the rows that know the position.
	tells []string
}

func beliefs(b mac.Beliefs) func(context.Context, *bench) error {
	return func(ctx context.Context, on *bench) error { return on.SetBeliefs(ctx, b) }
}

func quirks(s mac.Switches) func(context.Context, *bench) error {
	return func(ctx context.Context, on *bench) error { return on.SetSwitches(ctx, s) }
}

func quirk(q mac.Quirks) func(context.Context, *bench) error { return quirks(mac.Switches{Quirks: q}) }

func uncertains() map[string]uncertain {
	looks, boots := []string{"looks", "upload"}, append(noLooks(), "leave", "uninstall")
	inGuests := append(slices.DeleteFunc(noLooks(), func(name string) bool { return name == "guests" }), "reboot", "leave", "uninstall")
	return map[string]uncertain{
		accept.AsDelivered:  {set: beliefs(mac.Beliefs{})},
		"flushKeepsPersist": {beliefs(mac.Beliefs{FlushKeepsPersist: true}), looks, []string{"root-looks/pf-flush"}},
		"persistIsBusy":     {beliefs(mac.Beliefs{PersistIsBusy: true}), looks, []string{"root-looks/pf-busy"}},
		"raceBusy":          {beliefs(mac.Beliefs{RaceBusy: true}), looks, []string{"root-looks/pf-meet"}},
		"serviceNames":      {beliefs(mac.Beliefs{ServiceNames: true}), looks, []string{"root-looks/pf-ports"}},
		"freshPreferences":  {quirk(mac.Quirks{FreshPreferences: true}), looks, []string{"root-looks/preferences"}},
		"vmnetDropsAnchorCalls": {
			beliefs(mac.Beliefs{VMNetReplacesMain: true, VMNetDropsAnchorCalls: true}), inGuests, []string{"guests/firewall"},
		},
		"recycledVnodes":       {quirks(mac.Switches{RecycledVnodes: 1}), []string{"looks", "root-looks", "doctor-before", "converge"}, []string{"signatures/in-place"}},
		"needsKick":            {quirk(mac.Quirks{NeedsKick: true}), boots, []string{"reboot/login", "reboot/session"}},
		"noLoginwindow":        {quirk(mac.Quirks{NoLoginwindow: true}), boots, []string{"reboot/login", "reboot/session"}},
		"powerForgets":         {quirk(mac.Quirks{PowerForgets: true}), boots, []string{"reboot/power"}},
		"volumesStayUnmounted": {quirk(mac.Quirks{VolumesStayUnmounted: true}), boots, []string{"reboot/storage"}},
	}
}

// untold are switches for what is uncertain that no run can tell, each with the reason.
func untold() map[string]string {
	return map[string]string{
		"vmnetReplacesMain": "a rule of another has to be in the main ruleset when a guest starts, and by then root runs nothing but the agent's verbs",
		"respawnLimit":      "nobody knows how many registrations it takes, and afterwards launchd starts no job again",
		"databaseLimit":     "nobody knows how many registrations it takes, and afterwards launchd loads no job at a boot",
		"lockSteps":         "it takes several wrong passwords, and may lock SSH",
		"sessionDelay":      "reboot/login says how long it took, and no time is compared",
		"bootTakes":         "reboot/back says how long it took, and no time is compared",
	}
}

// faults are switches for what is wrong with one Mac: a report differs by them.
func faults() []string {
	return []string{
		"door.refuse", "door.stall", "door.queueFull", "door.noBanner", "door.cutAfter", "door.cutBeforeExit", "door.otherHostKeys",
		"door.noKeys", "door.connections", "noSession", "powerRefused", "addVolumeFails", "volumesBusy", "ignoresShutdown", "baseSystem",
	}
}

// noLooks leaves out what only looks, and what has nothing to do with converging once.
func noLooks() []string {
	return []string{"looks", "root-looks", "doctor-before", "doctor-after", "signatures", "again", "guests", "upgrade", "rollback"}
}

// switchesOf are the names of a struct's switches, as JSON has them.
func switchesOf(of reflect.Type, prefix string) []string {
	var all []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch field.Type {
		case reflect.TypeFor[mac.Door]():
			all = append(all, switchesOf(field.Type, name+".")...)
		case reflect.TypeFor[mac.Quirks]():
			all = append(all, switchesOf(field.Type, "")...)
		default:
			all = append(all, prefix+name)
		}
	}
	return all
}

// Whatever is uncertain of a Mac is tried both ways, or the page says that it is not.
func TestAcceptTriesEachSwitchOrSaysThatItDoesNot(t *testing.T) {
	lists := map[string]int{}
	tried := maps.Clone(uncertains())
	delete(tried, accept.AsDelivered)
	for _, name := range slices.Concat(slices.Collect(maps.Keys(tried)), slices.Collect(maps.Keys(untold())), faults()) {
		lists[name]++
	}
	for _, name := range slices.Concat(switchesOf(reflect.TypeFor[mac.Switches](), ""), switchesOf(reflect.TypeFor[mac.Beliefs](), "")) {
		if lists[name] != 1 {
			t.Errorf("switch %s of the simulator is in %d of the lists: tried, told by no run, a fault", name, lists[name])
		}
		delete(lists, name)
	}
	if len(lists) != 0 {
		t.Errorf("no switches of the simulator: %v", lists)
	}
	page, err := os.ReadFile("../../docs/operate/accept.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, u := range tried {
		said := slices.ContainsFunc(strings.Split(string(page), "\n"), func(line string) bool {
			return strings.HasPrefix(line, "| `"+name+"` |") && strings.HasSuffix(line, "| `"+strings.Join(u.tells, "`, `")+"` |")
		})
		if !said {
			t.Errorf("the page does not say that %q tell the switch %s", u.tells, name)
		}
	}
	for name, why := range untold() {
		if !strings.Contains(string(page), "`"+name+"`: "+why) {
			t.Errorf("the page does not say that a run cannot tell `%s`: %s", name, why)
		}
	}
}
