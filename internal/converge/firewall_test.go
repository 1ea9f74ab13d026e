package converge

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/step"
	"github.com/macfleet/macfleet/internal/converge/takeover"
)

// pfDid lists the changes of the packet filter in the last run.
func (f *fixture) pfDid() []string {
	var calls []string
	for _, c := range f.mac.Changes {
		if strings.HasPrefix(c, "pf ") || c == "write "+pfConf {
			calls = append(calls, c)
		}
	}
	return calls
}

// fenced fails unless the rules are in force.
func (f *fixture) fenced() {
	f.t.Helper()
	if differs, err := f.firewallStep().Check(context.Background()); err != nil || len(differs) > 0 {
		f.t.Errorf("the guests are not fenced in: %v, %v", differs, err)
	}
}

// armed fails unless our rules are in force, whatever else is.
func (f *fixture) armed() {
	f.t.Helper()
	policy := firewall.PolicyOf(f.desired.Host, f.desired.Mac, f.desired.Kubelet)
	if differs, err := firewall.Differs(context.Background(), f.mac.Interfaces(), policy); err != nil || len(differs) > 0 {
		f.t.Errorf("our rules are not in force: %v, %v", differs, err)
	}
}

func (f *fixture) arm() error {
	f.mac.Changes = nil
	return firewall.Arm(context.Background(), f.mac.Interfaces(), firewall.PolicyOf(f.desired.Host, f.desired.Mac, f.desired.Kubelet))
}

const (
	loadOurs = "pf load " + firewall.Anchor
	loadOld  = "pf load " + takeover.PacketFilterAnchor
)

func TestFirewallIsLoadedOnce(t *testing.T) {
	f := newFixture(t)
	f.converge()
	want := []string{loadOurs, "pf states " + document.DefaultSubnet, "pf states " + guestsULA, "pf enable"}
	if d := cmp.Diff(want, f.pfDid()); d != "" {
		t.Errorf("first run (-want +got):\n%s", d)
	}
	f.fenced()
	if r := f.converge(); outcomes(r)["firewall"] != document.Unchanged || len(f.pfDid()) != 0 {
		t.Errorf("second run: %s, %v", outcomes(r)["firewall"], f.pfDid())
	}
}

// TestRequirement002_StuckTablesRecover: tables that an older system left in the
// anchor, with rules that refer to them, and in the main ruleset.
func TestRequirement002_StuckTablesRecover(t *testing.T) {
	for name, belief := range map[string]func(*fixture){
		"tables that persist are in the way": func(f *fixture) {
			f.mac.PF.PersistIsBusy, f.mac.PF.FlushKeepsPersist = true, true
		},
		"somebody else's change is in the way": func(f *fixture) { f.mac.PF.BusyLoads = busyTries - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			belief(f)
			conf := "scrub-anchor \"com.apple/*\"\nanchor \"com.apple/*\"\nload anchor \"com.apple\" from \"/etc/pf.anchors/com.apple\"\n"
			old := "anchor \"tuist.runners\"\nload anchor \"tuist.runners\" from \"/etc/pf.anchors/tuist.runners\"\n"
			f.mac.Put(pfConf, []byte(conf+old+"# BEGIN tuist\n"+old+"# END tuist\n# mine\n"), step.RootAttr(0o644))
			for _, table := range takeover.PacketFilterTables() {
				f.mac.PF.PutTable(takeover.PacketFilterAnchor, table, true)
				f.mac.PF.PutTable("", table, false)
			}
			f.converge()
			for _, table := range takeover.PacketFilterTables() {
				if f.mac.PF.HasTable(takeover.PacketFilterAnchor, table) || f.mac.PF.HasTable("", table) {
					t.Errorf("table %s is still there", table)
				}
			}
			if rules := f.mac.PF.Anchor(takeover.PacketFilterAnchor); len(rules) > 0 {
				t.Errorf("old rules: %q", rules)
			}
			if d := cmp.Diff(conf+"# mine\n", f.content(pfConf)); d != "" {
				t.Errorf("pf.conf (-want +got):\n%s", d)
			}
			f.fenced()
			if f.converge(); len(f.pfDid()) != 0 {
				t.Errorf("it does not rest: %v", f.pfDid())
			}
		})
	}
}

// The order counts: rules go before the tables that they refer to.
func TestRequirement002_RulesGoBeforeTables(t *testing.T) {
	f := newFixture(t)
	f.mac.PF.PutTable(takeover.PacketFilterAnchor, "vm_sources", true)
	f.mac.PF.PutTable("", "vm_sources", false)
	f.mac.PF.PutTable("", "somebody_elses", false)
	f.converge()
	want := []string{loadOld, "pf kill " + takeover.PacketFilterAnchor + "/vm_sources", "pf kill vm_sources", loadOld}
	did := f.pfDid()
	if d := cmp.Diff(want, did[len(did)-len(want):]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !f.mac.PF.HasTable("", "somebody_elses") {
		t.Error("somebody else's table is gone")
	}
}

// TestF04_BusyIsTriedAgain: another change of the packet filter is under way.
func TestF04_BusyIsTriedAgain(t *testing.T) {
	f := newFixture(t)
	f.mac.PF.BusyLoads = busyTries - 1
	f.converge()
	f.fenced()

	f = newFixture(t)
	f.mac.PF.BusyLoads = busyTries
	f.refused("firewall", document.Retry, "Resource busy")
	f.converge()
}

// TestF05_WhatCannotBeRemovedAsksForAReboot: nothing of pf survives one. Our rules are in
// force meanwhile.
func TestF05_WhatCannotBeRemovedAsksForAReboot(t *testing.T) {
	f := newFixture(t)
	f.mac.PF.PutTable("", "vm_sources", false)
	f.mac.PF.Pin("", "vm_sources")
	f.refused("firewall", document.Reboot, "vm_sources")
	f.armed()
	f.mac.Reboot()
	f.converge()
	f.fenced()
}

// TestF06_BothFamiliesAreFenced: the Mac's addresses of both are covered.
func TestF06_BothFamiliesAreFenced(t *testing.T) {
	f := newFixture(t)
	f.converge()
	all := strings.Join(f.mac.PF.Anchor(firewall.Anchor), "\n")
	for _, want := range []string{" to 192.0.2.4", " to 2001:db8::4", "inet6 from any to fc00::/7"} {
		if !strings.Contains(all, want) {
			t.Errorf("no rule with %q", want)
		}
	}
	// A new address is open until the rules are loaded again, which cuts nobody off.
	f.mac.PF.Own = append(f.mac.PF.Own, netip.MustParseAddr("198.51.100.9"))
	if err := f.arm(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{loadOurs}, f.pfDid()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	f.fenced()
}

// TestF07_RearmsAfterVMNet: starting a guest may replace the main ruleset.
func TestF07_RearmsAfterVMNet(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.PF.VMNet(true)
	if err := f.arm(); err != nil || len(f.pfDid()) != 0 {
		t.Errorf("a call that survived: %v, %v", err, f.pfDid())
	}
	// The rules went with it.
	f.mac.PF.SetAnchor(firewall.Anchor)
	if err := f.arm(); err != nil {
		t.Fatal(err)
	}
	f.fenced()
	// Nobody calls them any more: that is said, and the main ruleset stays as it is.
	f.mac.PF.VMNet(false)
	before := f.mac.PF.Main
	err := f.arm()
	if err == nil || step.ClassOf(err) != document.Reboot || !strings.Contains(err.Error(), "com.apple/*") {
		t.Errorf("error %v", err)
	}
	if d := cmp.Diff(before, f.mac.PF.Main); d != "" {
		t.Errorf("main ruleset (-before +after):\n%s", d)
	}
	f.refused("firewall", document.Reboot, "com.apple/*")
}

// TestF07_PFConfIsNobodysButMacOS: on a Mac without older systems it is not written.
func TestF07_PFConfIsNobodysButMacOS(t *testing.T) {
	f := newFixture(t)
	f.mac.Put(pfConf, []byte("anchor \"com.apple/*\"\n# tuned by hand\n"), step.RootAttr(0o644))
	f.converge()
	for _, c := range f.pfDid() {
		if c == "write "+pfConf {
			t.Error("pf.conf was written")
		}
	}
}

func TestOneReferenceABoot(t *testing.T) {
	f := newFixture(t)
	f.converge()
	for range 3 {
		f.mac.PF.SetAnchor(firewall.Anchor)
		if err := f.arm(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(f.mac.PF.Tokens()); n != 1 {
		t.Errorf("%d references", n)
	}
	f.mac.Reboot()
	// Somebody else's reference, with the number that ours had before.
	other, err := f.mac.Interfaces().Firewall.Enable(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.arm(); err != nil {
		t.Fatal(err)
	}
	if tokens := f.mac.PF.Tokens(); len(tokens) != 2 || tokens[0] != other {
		t.Errorf("references %v after a boot", tokens)
	}
	f.fenced()
}

func TestAReferenceThatCannotBeRecordedIsGivenBack(t *testing.T) {
	f := newFixture(t)
	f.mac.PF.VMNet(true) // somebody else keeps the packet filter on
	f.mac.Fail = func(call string) error {
		if call == "write "+firewall.File && slices.Contains(f.mac.Changes, "pf enable") {
			return errCut
		}
		return nil
	}
	f.refused("firewall", document.Retry, errCut.Error())
	if n := len(f.mac.PF.Tokens()); n != 0 {
		t.Errorf("%d references", n)
	}
	f.mac.Fail = nil
	f.converge()
	f.fenced()
}

func TestDisarm(t *testing.T) {
	f := newFixture(t)
	f.converge()
	for range 2 { // the second finds nothing
		if err := f.firewallStep().TakeBack(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.mac.PF.Anchor(firewall.Anchor)) > 0 || len(f.mac.PF.Tokens()) > 0 {
		t.Errorf("left: %v, %v", f.mac.PF.Anchor(firewall.Anchor), f.mac.PF.Tokens())
	}
	if _, there := f.mac.Get(firewall.File); there {
		t.Error("the record of the reference is left")
	}
}

func TestRulesThatWereNotLoadedAreNoticed(t *testing.T) {
	f := newFixture(t)
	f.mac.PF.Unset = true
	f.refused("firewall", document.Retry, "did not take")
}

func TestArmingWaitsForTheOther(t *testing.T) {
	f := newFixture(t)
	f.converge()
	other, err := f.mac.Interfaces().Files.Lock(firewall.Lock)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.arm(); err == nil || !strings.Contains(err.Error(), "locking the firewall") {
		t.Errorf("error %v", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.arm(); err != nil {
		t.Error(err)
	}
}

func TestAChangedPolicyTightens(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Mac.Network.DenyPrivate = true
	f.desired.Mac.Network.SSHFrom = []string{"198.51.100.0/24"}
	f.converge()
	want := []string{loadOurs, "pf states " + document.DefaultSubnet, "pf states " + guestsULA}
	if d := cmp.Diff(want, f.pfDid()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	f.fenced()
}

// TestOldConnectionsAreEndedWhateverHappens: rules that match say nothing about the
// connections that were open before them.
func TestOldConnectionsAreEndedWhateverHappens(t *testing.T) {
	for name, cut := range map[string]string{
		"ending the first fails":  "pf states " + document.DefaultSubnet,
		"ending the second fails": "pf states " + guestsULA,
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			f.desired.Mac.Network.DenyPrivate = true
			f.mac.Fail = func(call string) error {
				if call == cut {
					return errCut
				}
				return nil
			}
			if err := f.arm(); err == nil {
				t.Fatal("guests are said to be fenced in")
			}
			if err := f.arm(); err == nil {
				t.Fatal("the rules match, and what is owed is forgotten")
			}
			f.mac.Fail = nil
			if err := f.arm(); err != nil {
				t.Fatal(err)
			}
			want := []string{"pf states " + document.DefaultSubnet, "pf states " + guestsULA}
			if d := cmp.Diff(want, f.pfDid()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			f.fenced()
			if err := f.arm(); err != nil || len(f.pfDid()) != 0 {
				t.Errorf("it does not rest: %v, %v", err, f.pfDid())
			}
		})
	}
}

// A full disk opens no door: the rules are loaded, and old connections are ended.
func TestRulesAreLoadedOnAFullDisk(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Mac.Network.DenyPrivate = true
	f.mac.Fail = func(call string) error {
		if call == "write "+firewall.File {
			return errCut
		}
		return nil
	}
	if err := f.arm(); err == nil {
		t.Error("what is owed cannot be recorded, and nobody is told")
	}
	if d := cmp.Diff([]string{loadOurs, "pf states " + document.DefaultSubnet, "pf states " + guestsULA}, f.pfDid()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A boot leaves the packet filter off, and the reference on record was the old boot's: on
// a full disk it is turned on all the same, with one reference, which ends with the boot.
func TestThePacketFilterIsOnAfterABootWithAFullDisk(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.Reboot()
	f.mac.Fail = func(call string) error {
		if call == "write "+firewall.File {
			return syscall.ENOSPC
		}
		return nil
	}
	for minute := range 3 {
		if err := f.arm(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("minute %d: nobody is told that the disk is full: %v", minute, err)
		}
		state, err := f.mac.Interfaces().Firewall.State(t.Context())
		if err != nil || !state.Enabled || len(state.Tokens) != 1 || len(f.mac.PF.Anchor(firewall.Anchor)) == 0 {
			t.Errorf("minute %d: the packet filter is %+v, with %d rules (%v)", minute, state, len(f.mac.PF.Anchor(firewall.Anchor)), err)
		}
	}
	f.mac.Fail = nil
	if err := f.arm(); err != nil {
		t.Error(err)
	}
	f.fenced()
}

// TestABootEndsWhatIsOwed: no connection outlives it.
func TestABootEndsWhatIsOwed(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.desired.Mac.Network.DenyPrivate = true
	f.mac.Fail = func(call string) error {
		if strings.HasPrefix(call, "pf states") {
			return errCut
		}
		return nil
	}
	if err := f.arm(); err == nil {
		t.Fatal("guests are said to be fenced in")
	}
	f.mac.Fail = nil
	f.mac.Reboot()
	differs, err := f.firewallStep().Check(t.Context())
	if says := strings.Join(differs, "; "); err != nil || says == "" || strings.Contains(says, "connections") {
		t.Errorf("after a boot: %s, %v", says, err)
	}
}

// A profile that forgets the manager would lose one Mac after the other: each would
// accept the rules, and nobody could reach it to take them back.
func TestTheManagerIsNotShutOut(t *testing.T) {
	for name, c := range map[string]struct {
		from    string
		allow   []string
		refused bool
	}{
		"not among them":      {"203.0.113.9", []string{"198.51.100.0/24", "2001:db8:7::/48"}, true},
		"IPv6, not among":     {"2001:db8:8::1", []string{"198.51.100.0/24", "2001:db8:7::/48"}, true},
		"the second network":  {"2001:db8:7::1", []string{"198.51.100.0/24", "2001:db8:7::/48"}, false},
		"everybody may":       {"203.0.113.9", nil, false},
		"over the loopback":   {"127.0.0.1", []string{"198.51.100.0/24"}, false},
		"nobody knows whence": {"", []string{"198.51.100.0/24"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			f.desired.Host.ManagedFrom, f.desired.Mac.Network.SSHFrom = c.from, c.allow
			if !c.refused {
				f.converge()
				f.fenced()
				return
			}
			f.refused("firewall", document.Human, "network.sshIngress.allow does not contain "+c.from)
			if did := f.pfDid(); len(did) > 0 {
				t.Errorf("changed all the same: %v", did)
			}
		})
	}
}
