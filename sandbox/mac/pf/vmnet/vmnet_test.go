package vmnet_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
	"github.com/macfleet/macfleet/sandbox/mac/pf/vmnet"
)

const (
	mac   = "127.80.1.2"
	guest = "192.168.64.2"
	ours  = "com.apple/000.ours"
	// fence keeps guests from private networks; it is quick and looks at what
	// comes in.
	fence = "block in quick inet from 192.168.64.0/24 to 10.0.0.0/8\n"
)

type bench struct {
	*vmnet.Network
	t *testing.T
}

func boot(t *testing.T, b pf.Beliefs) *bench {
	t.Helper()
	n := vmnet.New(vmnet.Options{Address: netip.MustParseAddr(mac)})
	n.Filter.SetBeliefs(b)
	w := &bench{n, t}
	w.pfctl("", "-f", "/etc/pf.conf")
	return w
}

func (b *bench) pfctl(stdin string, args ...string) pf.Result {
	b.t.Helper()
	r := b.Filter.Run(pf.Command{Args: args, Stdin: []byte(stdin), Read: func(path string) ([]byte, error) {
		return []byte(pf.StockFiles()[path]), nil
	}})
	if r.RC != 0 {
		b.t.Fatalf("pfctl %q: %+v", args, r)
	}
	return r
}

func (b *bench) start() {
	b.t.Helper()
	if _, err := b.Attach(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) stop() {
	b.t.Helper()
	if err := b.Detach(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) reach(from, to string) bool {
	b.t.Helper()
	path := b.Reach(netip.MustParseAddrPort(from), netip.MustParseAddrPort(to), "tcp")
	b.t.Logf("%s to %s: %+v", from, to, path)
	return path.Arrives
}

func TestGuestsReachTheWorldWhileTheyRun(t *testing.T) {
	b := boot(t, pf.Beliefs{})
	if b.reach(guest+":1", "192.0.2.1:443") {
		t.Error("reached without a network")
	}
	b.start()
	b.start()
	if !b.Filter.Enabled() {
		t.Error("the first guest does not enable the filter")
	}
	for _, to := range []string{"192.0.2.1:443", "10.0.0.1:22", "169.254.169.254:80", "192.168.64.1:22", "192.168.64.3:22", mac + ":22"} {
		if !b.reach(guest+":1", to) {
			t.Errorf("%s is not reached without rules", to)
		}
	}
	if !b.reach("[fd5d:8e11:4a02:1::2]:1", "[2001:db8:1::1]:443") {
		t.Error("no IPv6")
	}
	if b.reach("10.9.9.9:1", "192.0.2.1:443") {
		t.Error("a source that nobody translates is answered")
	}
	b.stop()
	if !b.reach(guest+":1", "192.0.2.1:443") || !b.Filter.Enabled() {
		t.Error("the other guest lost its network")
	}
	b.stop()
	if b.reach(guest+":1", "192.0.2.1:443") || b.Filter.Enabled() {
		t.Error("the network outlives the last guest")
	}
	if got := b.pfctl("", "-s", "Anchors").Stdout; got != "  com.apple\n" {
		t.Errorf("anchors left: %q", got)
	}
}

func TestF06_OnlyARuleOnTheWayInFencesGuests(t *testing.T) {
	b := boot(t, pf.Beliefs{})
	b.start()
	b.pfctl(strings.Replace(fence, "block in", "block out", 1), "-a", ours, "-f", "-")
	if !b.reach(guest+":1", "10.0.0.1:22") {
		t.Error("a rule on the way out blocks: it sees the guest's address behind the translation")
	}
	b.pfctl(fence, "-a", ours, "-f", "-")
	if b.reach(guest+":1", "10.0.0.1:22") {
		t.Error("a rule on the way in does not block")
	}
	if !b.reach(guest+":1", "192.0.2.1:443") {
		t.Error("the internet is fenced off, too")
	}
}

func TestF07_TheSharingServiceOwnsTheMainRuleset(t *testing.T) {
	tests := map[string]struct {
		beliefs      pf.Beliefs
		user, anchor bool // does a user's main rule, and a rule in our anchor, survive the start of a guest
	}{
		"beside":            {pf.Beliefs{}, true, true},
		"replaced":          {pf.Beliefs{VMNetReplacesMain: true}, false, true},
		"calls are dropped": {pf.Beliefs{VMNetReplacesMain: true, VMNetDropsAnchorCalls: true}, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := boot(t, tt.beliefs)
			b.pfctl(pf.AppleCalls+"block in quick inet from any to 198.51.100.0/24\n", "-f", "-")
			b.pfctl(fence, "-a", ours, "-f", "-")
			b.start()
			if got := !b.reach(guest+":1", "198.51.100.1:22"); got != tt.user {
				t.Errorf("the user's rule blocks: %v", got)
			}
			if got := !b.reach(guest+":1", "10.0.0.1:22"); got != tt.anchor {
				t.Errorf("our anchor's rule blocks: %v", got)
			}
			if !b.reach(guest+":1", "192.0.2.1:443") {
				t.Error("the guest has no network")
			}
		})
	}
}

func TestF07_ReloadingPfConfTakesTheGuestsNetwork(t *testing.T) {
	b := boot(t, pf.Beliefs{})
	b.start()
	b.pfctl("", "-f", "/etc/pf.conf")
	if b.reach(guest+":1", "192.0.2.1:443") {
		t.Error("guests still are translated")
	}
	b.start() // the next guest brings it back
	if !b.reach(guest+":1", "192.0.2.1:443") {
		t.Error("the next guest's start does not bring the network back")
	}
}

func TestWhoReachesTheMac(t *testing.T) {
	b := boot(t, pf.Beliefs{})
	b.pfctl("", "-E")
	b.pfctl("pass in quick proto tcp from { 203.0.113.0/24 127.0.0.0/8 } to any port 22\nblock in quick proto tcp from any to any port 22\n",
		"-a", ours, "-f", "-")
	for from, want := range map[string]bool{"203.0.113.5:9": true, "198.51.100.5:9": false, mac + ":9": true} {
		if got := b.reach(from, mac+":22"); got != want {
			t.Errorf("from %s: %v", from, got)
		}
	}
	if !b.reach("198.51.100.5:9", mac+":443") {
		t.Error("another port is closed")
	}
}
