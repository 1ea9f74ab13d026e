package mac

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
)

const pfNoise = "No ALTQ support in kernel\nALTQ related functions disabled\n"

// reaches asks whether a guest's packet arrives.
func (b *bench) reaches(from, to string) bool {
	b.t.Helper()
	ok, why, err := b.Explain(b.t.Context(), netip.MustParseAddrPort(from), netip.MustParseAddrPort(to), "tcp")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("%s to %s: %v, %s", from, to, ok, why)
	return ok
}

// guest runs a guest in the background, once there is a session for it, and waits
// for its address.
func (b *bench) guest(name string) string {
	b.t.Helper()
	await(b.t, "a session", func() bool { return b.sh("launchctl print gui/501", "").rc == 0 })
	return b.ok("PATH=/opt/homebrew/bin:$PATH; tart clone ghcr.io/acme/macos:15 " + name + " >/dev/null" +
		" && { tart run --no-graphics " + name + " >/dev/null 2>&1 & } && tart ip --wait 60 " + name)
}

func TestPfctlOnAMac(t *testing.T) {
	b := startBench(t, nil)
	if got := b.sh("pfctl -s info", ""); got.rc != 1 || got.err != "pfctl: /dev/pf: Permission denied\n" {
		t.Errorf("as the user: %+v", got)
	}
	got := b.root("pfctl -s rules")
	if diff := cmp.Diff("scrub-anchor \"com.apple/*\" all fragment reassemble\nanchor \"com.apple/*\" all\n", got.out); diff != "" || got.err != pfNoise {
		t.Errorf("at boot: %q %s", got.err, diff)
	}
	got = b.root("echo 'block in quick inet from 192.168.64.0/24 to 10/8' | pfctl -q -a com.apple/000.ours -f - && pfctl -q -a com.apple/000.ours -s rules && pfctl -E")
	if got.rc != 0 || got.out != "block drop in quick inet from 192.168.64.0/24 to 10.0.0.0/8\n" || !strings.Contains(got.err, "Token : ") {
		t.Errorf("loading: %+v", got)
	}
	if got := b.root("echo 'blok' | pfctl -a com.apple/000.ours -nf -"); got.rc != 1 || !strings.Contains(got.err, "stdin:1: syntax error\n") {
		t.Errorf("wrong rules: %+v", got)
	}
	if u := b.Unmodelled(); len(u) != 0 {
		t.Errorf("unmodelled: %+v", u)
	}
	if got := b.root("pfctl -s osfp"); got.rc != 64 || len(b.Unmodelled()) != 1 {
		t.Errorf("what is not modelled: %+v, recorded %+v", got, b.Unmodelled())
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	got = b.root("pfctl -q -a com.apple/000.ours -s rules; pfctl -q -s References; pfctl -s info | head -n 1")
	if !strings.Contains(got.out, "Status: Disabled") || strings.Contains(got.out, "block") || strings.Contains(got.out, "pfctl") {
		t.Errorf("after a reboot: %+v", got)
	}
}

func TestGuestsOfAMacAreOnItsNetwork(t *testing.T) {
	b := startBench(t, autoLogin)
	if got := b.ok("ifconfig -l"); got != "lo0 en0" {
		t.Errorf("interfaces %q", got)
	}
	ip := b.guest("one")
	if got := b.ok("ifconfig bridge100"); !strings.Contains(got, "inet 192.168.64.1 netmask 0xffffff00 broadcast 192.168.64.255") {
		t.Errorf("the bridge: %s", got)
	}
	if !b.reaches(ip+":1", "10.0.0.1:443") || !b.reaches(ip+":1", b.Address().String()) {
		t.Error("without rules something is out of reach")
	}
	b.root("echo 'block in quick inet from 192.168.64.0/24 to { 10/8 self }' | pfctl -a com.apple/000.ours -f -")
	for to, want := range map[string]bool{"10.0.0.1:443": false, b.Address().String(): false, "192.168.64.1:53": false, "192.0.2.1:443": true} {
		if b.reaches(ip+":1", to) != want {
			t.Errorf("%s is reached: %v", to, !want)
		}
	}
	b.ok("/opt/homebrew/bin/tart stop one")
	await(t, "the bridge to go", func() bool { return b.sh("ifconfig bridge100", "").rc == 1 })
	if b.root("pfctl -s info | grep -q Disabled").rc != 0 {
		t.Error("the last guest's end leaves the filter enabled")
	}
	if u := b.Unmodelled(); len(u) != 0 {
		t.Errorf("unmodelled: %+v", u)
	}
}

func TestF07_AGuestsStartReplacesTheMainRuleset(t *testing.T) {
	b := startBench(t, autoLogin)
	if err := b.SetBeliefs(t.Context(), Beliefs{VMNetReplacesMain: true, VMNetDropsAnchorCalls: true}); err != nil {
		t.Fatal(err)
	}
	b.root("echo 'block in quick inet from 192.168.64.0/24 to 10/8' | pfctl -a com.apple/000.ours -f -")
	ip := b.guest("one")
	if !b.reaches(ip+":1", "10.0.0.1:443") || b.root("pfctl -q -s rules | grep -q 'com.apple/'").rc == 0 {
		t.Error("the calls of com.apple/* are still there")
	}
	b.root("pfctl -f /etc/pf.conf")
	if b.reaches(ip+":1", "192.0.2.1:443") {
		t.Error("pf.conf was loaded and the guest still has a network")
	}
	// A guest that is killed with its run leaves as well.
	b.root("kill -9 $(pgrep -f 'tart run')")
	await(t, "the bridge to go", func() bool { return b.sh("ifconfig bridge100", "").rc == 1 })
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.guest("two")
	if b.root("pfctl -q -s rules | grep -q 'com.apple/'").rc == 0 {
		t.Error("a reboot changed what is believed")
	}
}

func TestRequirement002_AStuckHost(t *testing.T) {
	for name, beliefs := range map[string]Beliefs{"stale tickets": {}, "persistence": {PersistIsBusy: true, FlushKeepsPersist: true}} {
		t.Run(name, func(t *testing.T) {
			b := startBench(t, nil)
			if err := b.LeaveStuck(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.SetBeliefs(t.Context(), beliefs); err != nil {
				t.Fatal(err)
			}
			got := b.root("pfctl -f /etc/pf.conf")
			want := pf.LegacyFile + ":11: cannot define table vm_sources: Resource busy\n" + pf.LegacyFile + ":12: cannot define table blocked_dst: Resource busy\n" +
				"pfctl: Syntax error in config file: pf rules not loaded\n"
			if got.rc != 1 || !strings.HasSuffix(strings.TrimSuffix(got.err, "pfctl: load anchors\n"), want) {
				t.Errorf("the host is not stuck: %+v", got)
			}
			got = b.root(`for i in 1 2; do
				pfctl -a tuist.runners -f /dev/null
				for t in vm_sources blocked_dst; do pfctl -a tuist.runners -t $t -T kill; pfctl -t $t -T kill; done
			done; pfctl -q -a tuist.runners -s Tables; pfctl -q -s Tables; pfctl -a tuist.runners -f ` + pf.LegacyFile)
			if got.rc != 0 || got.out != "" {
				t.Errorf("not freed: %+v", got)
			}
		})
	}
}

func TestPortsByName(t *testing.T) {
	b := startBench(t, nil)
	if err := b.SetBeliefs(t.Context(), Beliefs{ServiceNames: true}); err != nil {
		t.Fatal(err)
	}
	got := b.root("echo 'pass in quick proto udp to any port 67' | pfctl -q -a com.apple/x -f -; pfctl -q -a com.apple/x -s rules; grep bootps /etc/services")
	if want := "pass in quick proto udp from any to any port = bootps keep state\nbootps          67/tcp\nbootps          67/udp\n"; got.out != want {
		t.Errorf("%+v, want %q", got, want)
	}
}

func TestF04_TwoLoadsThatMeetOnAMac(t *testing.T) {
	b := startBench(t, nil)
	b.root("true") // the grant takes its time
	if err := b.SetBeliefs(t.Context(), Beliefs{RaceBusy: true}); err != nil {
		t.Fatal(err)
	}
	// Both must start within a third of a second, which takes a busy machine many tries.
	awaitWithin(t, 5*time.Minute, "two loads to meet", func() bool {
		got := b.root(`echo 'block in' >/tmp/r
			pfctl -q -a com.apple/x -f /tmp/r & pfctl -q -a com.apple/x -f /tmp/r; wait`)
		return strings.Contains(got.err, "Resource busy")
	})
	if err := b.SetBeliefs(t.Context(), Beliefs{}); err != nil {
		t.Fatal(err)
	}
	if got := b.root("pfctl -a com.apple/x -f /tmp/r"); got.rc != 0 {
		t.Errorf("alone: %+v", got)
	}
}

func TestTheSharedNetworkFollowsPreferences(t *testing.T) {
	b := startBench(t, autoLogin)
	got := b.root(`d=/Library/Preferences/SystemConfiguration
		defaults write $d/com.apple.vmnet Shared_Net_Address -string 192.168.77.1 &&
		defaults write $d/com.apple.vmnet Shared_Net_Mask -string 255.255.255.0 &&
		defaults write $d/com.apple.InternetSharing.default bootpd -dict DHCPLeaseTimeSecs -int 600`)
	if got.rc != 0 {
		t.Fatalf("%+v", got)
	}
	ip := b.guest("one")
	if !strings.HasPrefix(ip, "192.168.77.") || !b.reaches(ip+":1", "192.0.2.1:443") {
		t.Errorf("the guest's address is %s", ip)
	}
	if got := b.ok("ifconfig bridge100"); !strings.Contains(got, "inet 192.168.77.1 ") {
		t.Errorf("the bridge: %s", got)
	}
	var expires int64
	for _, line := range strings.Split(b.ok("cat /var/db/dhcpd_leases"), "\n") {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "lease="); found {
			expires, _ = strconv.ParseInt(text, 0, 64)
		}
	}
	if left := time.Until(time.Unix(expires, 0)); left <= 0 || left > 10*time.Minute {
		t.Errorf("the lease ends in %v, want within ten minutes", left)
	}
}
