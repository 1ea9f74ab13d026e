package converge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	// recordFile remembers our reference to pf, which must be given back, and what is
	// still to be done about old connections.
	recordFile = document.StateDir + "/firewall.json"
	// busyTries and busyPause: somebody else's change of the packet filter takes
	// milliseconds.
	busyTries = 5
	busyPause = 100 * time.Millisecond
	// guestsULA is the range from which vmnet gives guests IPv6 addresses.
	guestsULA = "fc00::/7"
)

// firewall puts the rules around the Mac and its guests, and clears what older
// systems left.
func (t *target) firewall() step {
	return step{
		name: "firewall",
		about: "Loads the rules around the Mac and its guests into the packet filter's anchor " + firewall.Anchor +
			": what comes in is dropped but for SSH, the kubelet's port 10250, pings, what an address takes, and the profile's `network.hostIngress`." +
			" It keeps the packet filter enabled with one reference. /etc/pf.conf and the main ruleset are not touched," +
			" but for lines of older systems.",
		undo: "sudo pfctl -a " + firewall.Anchor + " -F rules, then sudo pfctl -X with the token in " + recordFile + "." +
			" A reboot does both.",
		check: func(ctx context.Context) ([]string, error) {
			if err := t.managerStays(); err != nil {
				return nil, err
			}
			legacy, err := t.legacyFirewall(ctx)
			if err != nil {
				return nil, err
			}
			a, err := newArming(ctx, t.Mac, fenceOf(t.desired))
			if err != nil {
				return nil, err
			}
			differs, err := a.differs(ctx)
			return append(legacy, differs...), err
		},
		act: func(ctx context.Context) error {
			if err := t.clearLegacyFirewall(ctx); err != nil {
				return err
			}
			return ArmFirewall(ctx, t.Mac, fenceOf(t.desired))
		},
		takeBack: t.disarm,
	}
}

// managerStays refuses rules that would shut the manager out, while it still can be
// told: afterwards nobody could take them back. The Mac's own loopback is never shut.
func (t *target) managerStays() error {
	from, allowed := t.desired.Host.ManagedFrom, t.desired.Mac.Network.SSHFrom
	if from == "" || len(allowed) == 0 {
		return nil
	}
	manager, err := netip.ParseAddr(from)
	if err != nil {
		return fail(document.Bug, "reading from where the manager reaches this Mac: %w", err)
	}
	contains := func(network string) bool {
		prefix, err := netip.ParsePrefix(network)
		return err == nil && prefix.Contains(manager)
	}
	if manager.IsLoopback() || slices.ContainsFunc(allowed, contains) {
		return nil
	}
	return fail(document.Human, "network.sshIngress.allow does not contain %s, from where the manager reaches this Mac: add it to the profile", manager)
}

// Fence is what the rules are made of.
type Fence struct {
	Network document.Network
	// SSHPort is Host.SSHPort of the document.
	SSHPort int
}

func fenceOf(d document.Desired) Fence { return Fence{d.Mac.Network, d.Host.SSHPort} }

// ArmFirewall proves that the rules around the Mac and its guests are in force, mends what is
// not, and proves it again. It may be called at any time, also while converge
// runs. An error means that guests are not known to be fenced in.
func ArmFirewall(ctx context.Context, mac macos.Mac, f Fence) error {
	unlock, err := lockFirewall(ctx, mac)
	if err != nil {
		return err
	}
	defer func() { _ = unlock.Close() }()
	a, err := newArming(ctx, mac, f)
	if err != nil {
		return err
	}
	differs, err := a.differs(ctx)
	if err != nil || len(differs) == 0 {
		return err
	}
	if err := a.mend(ctx); err != nil {
		return err
	}
	if differs, err = a.differs(ctx); err != nil {
		return fmt.Errorf("looking at the firewall again: %w", err)
	}
	switch {
	case a.main != "":
		return fail(document.Reboot, "%s; nothing but a reboot brings macOS's own ruleset back", a.main)
	case len(differs) > 0:
		return fmt.Errorf("the firewall did not take: %s", differs[0])
	}
	return nil
}

// lockFirewall keeps converge and hostd from arming at once: two changes of one
// anchor make the packet filter refuse one of them.
func lockFirewall(ctx context.Context, mac macos.Mac) (io.Closer, error) {
	unlock, err := lock(ctx, mac, firewallLock, firewallLockWait)
	if err != nil {
		return nil, fmt.Errorf("locking the firewall: %w", err)
	}
	return unlock, nil
}

// arming is one look at the firewall, and what it takes to mend it.
type arming struct {
	mac     macos.Mac
	subnet  string
	wanted  []firewall.Rule
	text    string
	boot    string
	record  firewallRecord
	live    []string
	enabled bool
	rules   []string // how the live rules differ
	main    string   // why the main ruleset does not call ours
}

// firewallRecord is what must not be forgotten when the process dies.
type firewallRecord struct {
	// Token is our reference, and BootSession the boot that it belongs to.
	Token       string `json:"token"`
	BootSession string `json:"bootSession"`
	// KillOwed is the boot in which rules were tightened and the guests' connections
	// from before that may be open still; empty: none are.
	KillOwed string `json:"killOwed,omitempty"`
}

func newArming(ctx context.Context, mac macos.Mac, f Fence) (*arming, error) {
	a := &arming{mac: mac, subnet: f.Network.Subnet}
	var err error
	if a.wanted, err = firewall.Wanted(f.Network, f.SSHPort); err != nil {
		return nil, fail(document.Bug, "rendering the firewall: %w", err)
	}
	if a.text, err = firewall.Rules(f.Network, f.SSHPort); err != nil {
		return nil, fail(document.Bug, "rendering the firewall: %w", err)
	}
	if a.boot, err = mac.Host.BootSession(ctx); err != nil {
		return nil, fmt.Errorf("reading the boot session: %w", err)
	}
	return a, nil
}

// differs looks, and says what is wrong in words for people.
func (a *arming) differs(ctx context.Context) ([]string, error) {
	if err := a.look(ctx); err != nil {
		return nil, err
	}
	differs := slices.Clone(a.rules)
	if a.main != "" {
		differs = append(differs, a.main)
	}
	if !a.enabled {
		differs = append(differs, "the packet filter is off, or on without a reference of ours")
	}
	if a.killOwed() {
		differs = append(differs, "connections that guests opened before the rules were tightened have not been ended")
	}
	return differs, nil
}

// killOwed: a reboot ends all connections, and with them what is owed.
func (a *arming) killOwed() bool { return a.record.KillOwed == a.boot }

func (a *arming) look(ctx context.Context) error {
	pf := a.mac.Firewall
	own, err := pf.Addresses(ctx)
	if err != nil {
		return err
	}
	if a.live, err = pf.Rules(ctx, firewall.Anchor); err != nil {
		return fmt.Errorf("reading the firewall's rules: %w", err)
	}
	a.rules = firewall.Judge(a.live, a.wanted, own)
	main, err := pf.Rules(ctx, "")
	if err != nil {
		return fmt.Errorf("reading the main ruleset: %w", err)
	}
	a.main = firewall.JudgeMain(main)
	state, err := pf.State(ctx)
	if err != nil {
		return fmt.Errorf("asking whether the packet filter is enabled: %w", err)
	}
	if a.record, err = readRecord(a.mac.Files); err != nil {
		return err
	}
	held := a.record.BootSession == a.boot && slices.Contains(state.Tokens, a.record.Token)
	a.enabled = state.Enabled && held
	return nil
}

// mend changes what the last look found wrong. The main ruleset is left as it is.
func (a *arming) mend(ctx context.Context) error {
	var err error
	switch {
	case len(a.rules) > 0:
		err = a.load(ctx)
	case a.killOwed():
		err = a.killStates(ctx)
	}
	if err != nil {
		return err
	}
	if a.enabled {
		return nil
	}
	token, err := a.mac.Firewall.Enable(ctx)
	if err != nil {
		return fmt.Errorf("enabling the packet filter: %w", err)
	}
	a.record.Token, a.record.BootSession = token, a.boot
	if err := writeRecord(ctx, a.mac.Files, a.record); err != nil {
		// Nobody would give it back.
		return errors.Join(err, a.mac.Firewall.Release(ctx, token))
	}
	return nil
}

// load puts the rules into the anchor, and ends the guests' connections where the
// rules close what was open.
func (a *arming) load(ctx context.Context) error {
	if err := a.mac.Firewall.Check(ctx, firewall.Anchor, a.text); err != nil {
		return refused("checking the firewall's rules", err)
	}
	var unrecorded error
	if !firewall.SameBut(a.live, a.wanted) {
		// First: once the rules match, nothing else tells that connections from before
		// them are open. On a full disk the rules are loaded all the same.
		a.record.KillOwed = a.boot
		unrecorded = writeRecord(ctx, a.mac.Files, a.record)
	}
	if err := loadAnchor(ctx, a.mac, firewall.Anchor, a.text); err != nil || !a.killOwed() {
		return errors.Join(err, unrecorded)
	}
	return errors.Join(a.killStates(ctx), unrecorded)
}

// killStates ends the guests' connections, which would go on past the rules.
func (a *arming) killStates(ctx context.Context) error {
	for _, guests := range []string{a.subnet, guestsULA} {
		if err := a.mac.Firewall.KillStates(ctx, guests); err != nil {
			return fmt.Errorf("ending the guests' old connections: %w", err)
		}
	}
	a.record.KillOwed = ""
	return writeRecord(ctx, a.mac.Files, a.record)
}

// loadAnchor replaces the rules of an anchor, again if somebody else is at it.
func loadAnchor(ctx context.Context, mac macos.Mac, anchor, rules string) error {
	for try := 1; ; try++ {
		err := mac.Firewall.Load(ctx, anchor, rules)
		var f *macos.FirewallError
		if !errors.As(err, &f) || !f.Busy || try == busyTries {
			return refused("loading the firewall's rules", err)
		}
		// Two who wait equally long meet again.
		if err := mac.Clock.Sleep(ctx, busyPause+rand.N(busyPause)*time.Duration(try)); err != nil {
			return err
		}
	}
}

// refused classifies pf's refusal: rules that are wrong are a bug of ours.
func refused(doing string, err error) error {
	var f *macos.FirewallError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f) && f.Syntax:
		return fail(document.Bug, "%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func readRecord(files macos.Files) (firewallRecord, error) {
	var record firewallRecord
	data, err := read(files, recordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return record, nil
	}
	if err != nil {
		return record, fmt.Errorf("reading our reference to the packet filter: %w", err)
	}
	// What cannot be read is as good as none: a new reference is taken.
	if json.Unmarshal(data, &record) != nil {
		return firewallRecord{}, nil
	}
	return record, nil
}

func writeRecord(ctx context.Context, files macos.Files, record firewallRecord) error {
	data, err := json.Marshal(record)
	if err == nil {
		err = write(ctx, files, file{recordFile, append(data, '\n'), macos.Attr{Mode: 0o600, Owner: root, Group: wheel}})
	}
	if err != nil {
		return fmt.Errorf("recording our reference to the packet filter: %w", err)
	}
	return nil
}

// disarm takes the rules and the reference away.
func (t *target) disarm(ctx context.Context) error {
	unlock, err := lockFirewall(ctx, t.Mac)
	if err != nil {
		return err
	}
	defer func() { _ = unlock.Close() }()
	live, err := t.Mac.Firewall.Rules(ctx, firewall.Anchor)
	if err != nil {
		return fmt.Errorf("reading the firewall's rules: %w", err)
	}
	if len(live) > 0 {
		if err := loadAnchor(ctx, t.Mac, firewall.Anchor, ""); err != nil {
			return err
		}
	}
	return t.releaseToken(ctx)
}

// releaseToken gives our reference back, unless a boot has taken it.
func (t *target) releaseToken(ctx context.Context) error {
	held, err := readRecord(t.Mac.Files)
	if err != nil {
		return err
	}
	state, err := t.Mac.Firewall.State(ctx)
	if err != nil {
		return fmt.Errorf("asking whether the packet filter is enabled: %w", err)
	}
	boot, err := t.Mac.Host.BootSession(ctx)
	if err != nil {
		return fmt.Errorf("reading the boot session: %w", err)
	}
	if held.BootSession == boot && slices.Contains(state.Tokens, held.Token) {
		if err := t.Mac.Firewall.Release(ctx, held.Token); err != nil {
			return fmt.Errorf("giving our reference to the packet filter back: %w", err)
		}
	}
	return t.Mac.Files.Remove(recordFile)
}
