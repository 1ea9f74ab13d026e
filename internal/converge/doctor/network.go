package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge"
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
	wrong, err := firewall.Differs(ctx, x.Mac, firewall.PolicyOf(x.config.Host, x.config.Mac, x.config.Kubelet))
	if err != nil {
		return unseen(err)
	}
	if len(wrong) > 0 {
		return problem(strings.Join(wrong, "; "),
			"guests may reach this Mac, each other, private networks and the vendor's metadata, and the internet this Mac", "hostd mends it within a minute; if it does not, run converge and read what it says")
	}
	return well("loaded, called by the main ruleset, and enabled")
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
	return warning(strings.Join(foreign, ", "),
		"rules of others come before or after ours, and tables of one name get in each other's way", "if an older version of this system put them there: converge --take-over; else ask who did")
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
		return problem(fmt.Sprintf("%d leases are running", live),
			"new guests get no address", "with no guest running: sudo rm "+leasesFile+"; converge's step network makes leases short")
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
	places := converge.TartPlaces()
	i := slices.IndexFunc(places, func(p string) bool { return !x.missing(ctx, p) })
	if i < 0 {
		return problem("it is in none of "+strings.Join(places, ", "),
			"no guest can run", "name a release in the profile's spec.tart, or install it")
	}
	version, err := x.tartVersion(ctx, places[i])
	if err != nil {
		return problem(places[i]+" does not run: "+err.Error(),
			"no guest can run", "install it anew")
	}
	marks, err := x.output(ctx, "/usr/bin/xattr", places[i])
	if err == nil && strings.Contains(marks, "com.apple.quarantine") {
		return warning(places[i]+" is in quarantine",
			"macOS may ask somebody at the screen before it runs", "sudo xattr -dr com.apple.quarantine on the application")
	}
	return well("%s: %s", places[i], version)
}
