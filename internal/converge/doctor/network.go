package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
)

const (
	leasesFile = "/var/db/dhcpd_leases"
	// manyLeases of the 253 addresses that a /24 has for guests.
	manyLeases = 200
)

func guestFirewall(ctx context.Context, x *exam) Finding {
	if x.config == nil {
		return none("the agent is not installed, or its configuration cannot be read")
	}
	wrong, err := x.firewallDiffers(ctx, x.config.Mac.Network, x.config.Host.SSHPort)
	if err != nil {
		return unseen(err)
	}
	if len(wrong) > 0 {
		return Finding{
			Verdict: Problem, Evidence: strings.Join(wrong, "; "),
			Consequence: "guests may reach this Mac, each other, private networks and the vendor's metadata, and the internet this Mac",
			Remedy:      "hostd mends it within a minute; if it does not, run converge and read what it says",
		}
	}
	return well("loaded, called by the main ruleset, and enabled")
}

func (x *exam) firewallDiffers(ctx context.Context, n document.Network, sshPort int) ([]string, error) {
	state, err := x.Mac.Firewall.State(ctx)
	if err != nil {
		return nil, err
	}
	main, err := x.Mac.Firewall.Rules(ctx, "")
	if err != nil {
		return nil, err
	}
	live, err := x.Mac.Firewall.Rules(ctx, firewall.Anchor)
	if err != nil {
		return nil, err
	}
	own, err := x.Mac.Firewall.Addresses(ctx)
	if err != nil {
		return nil, err
	}
	wanted, err := firewall.Wanted(n, sshPort)
	if err != nil {
		return nil, err
	}
	return judgeFirewall(state.Enabled, len(state.Tokens), main, live, wanted, own), nil
}

func judgeFirewall(enabled bool, tokens int, main, live []string, wanted []firewall.Rule, own []netip.Addr) []string {
	var wrong []string
	if !enabled {
		wrong = append(wrong, "the packet filter is off")
	}
	if tokens == 0 {
		wrong = append(wrong, "nobody holds it enabled")
	}
	if says := firewall.JudgeMain(main); says != "" {
		wrong = append(wrong, says)
	}
	return append(wrong, firewall.Judge(live, wanted, own)...)
}

func foreignRules(ctx context.Context, x *exam) Finding {
	text, err := x.output(ctx, "/sbin/pfctl", "-s", "Anchors", "-v")
	if err != nil {
		return unseen(err)
	}
	var foreign []string
	for _, anchor := range strings.Fields(text) {
		if !strings.HasPrefix(anchor, "com.apple") {
			foreign = append(foreign, anchor)
		}
	}
	tables, err := x.Mac.Firewall.Tables(ctx, "")
	if err != nil {
		return unseen(err)
	}
	for _, name := range tables {
		foreign = append(foreign, "table "+name)
	}
	if len(foreign) == 0 {
		return well("none")
	}
	return Finding{
		Verdict: Warning, Evidence: strings.Join(foreign, ", "),
		Consequence: "rules of others come before or after ours, and tables of one name get in each other's way",
		Remedy:      "if an older version of this system put them there: converge --take-over; else ask who did",
	}
}

func dhcp(_ context.Context, x *exam) Finding {
	data, err := x.read(leasesFile)
	if absent(err) {
		return none("no guest has had an address yet")
	}
	if err != nil {
		return unseen(err)
	}
	live := leases(string(data), time.Now())
	if live > manyLeases {
		return Finding{
			Verdict: Problem, Evidence: fmt.Sprintf("%d leases are running", live), Consequence: "new guests get no address",
			Remedy: "with no guest running: sudo rm " + leasesFile + "; converge's step network makes leases short",
		}
	}
	return well("%d leases are running", live)
}

// leases counts those that have not ended: blocks with a line lease=0x<seconds>.
func leases(text string, now time.Time) int {
	n := 0
	for line := range strings.Lines(text) {
		value, found := strings.CutPrefix(strings.TrimSpace(line), "lease=0x")
		if !found {
			continue
		}
		if ends, err := strconv.ParseInt(value, 16, 64); err == nil && ends > now.Unix() {
			n++
		}
	}
	return n
}

// tartVersion asks tart itself. Root never runs it: where a package manager puts it,
// the console user may write.
func (x *exam) tartVersion(ctx context.Context, path string) (string, error) {
	if !x.Root {
		return x.output(ctx, path, "--version")
	}
	user := x.user(ctx)
	if user == "" || user == "root" {
		return "", errors.New("nobody is known to run it as: give the console user by --user")
	}
	return x.output(ctx, "/usr/bin/sudo", "-n", "-H", "-u", user, path, "--version")
}

func tart(ctx context.Context, x *exam) Finding {
	places := []string{"/usr/local/bin/tart", "/opt/homebrew/bin/tart"}
	i := slices.IndexFunc(places, func(p string) bool { return !x.missing(ctx, p) })
	if i < 0 {
		return Finding{
			Verdict: Problem, Evidence: "it is in none of " + strings.Join(places, ", "), Consequence: "no guest can run",
			Remedy: "name a release in the profile's spec.tart, or install it",
		}
	}
	version, err := x.tartVersion(ctx, places[i])
	if err != nil {
		return Finding{Verdict: Problem, Evidence: places[i] + " does not run: " + err.Error(), Consequence: "no guest can run", Remedy: "install it anew"}
	}
	marks, err := x.output(ctx, "/usr/bin/xattr", places[i])
	if err == nil && strings.Contains(marks, "com.apple.quarantine") {
		return Finding{
			Verdict: Warning, Evidence: places[i] + " is in quarantine", Consequence: "macOS may ask somebody at the screen before it runs",
			Remedy: "sudo xattr -dr com.apple.quarantine on the application",
		}
	}
	return well("%s: %s", places[i], version)
}
