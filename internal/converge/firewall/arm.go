package firewall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const (
	// File remembers our reference to pf, which must be given back, and what is still
	// to be done about old connections.
	File = document.StateDir + "/firewall.json"
	// Lock is held by an arming. Its wait covers a whole one with all its tries.
	Lock     = document.StateDir + "/firewall.lock"
	lockWait = 15 * time.Second
	// busyTries and busyPause: somebody else's change of the packet filter takes
	// milliseconds.
	busyTries = 5
	busyPause = 100 * time.Millisecond
	// guestsULA is the range from which vmnet gives guests IPv6 addresses.
	guestsULA = "fc00::/7"
)

// Policy is what the rules are made of.
type Policy struct {
	Network document.Network
	// SSHPort is Host.SSHPort of the document.
	SSHPort int
	// KubeletPort is where the Mac serves the kubelet API; 0: nowhere.
	KubeletPort int
}

// PolicyOf is the policy of the configuration.
func PolicyOf(host document.Host, mac document.Mac, kubelet document.Kubelet) Policy {
	return Policy{mac.Network, host.SSHPort, kubelet.ListenPort()}
}

// Arm proves that the rules around the Mac and its guests are in force, repairs what is
// not, and proves it again. It may be called at any time, also while converge
// runs. An error means that guests are not known to be behind the rules.
func Arm(ctx context.Context, mac macos.Mac, p Policy) error {
	unlock, err := LockArming(ctx, mac)
	if err != nil {
		return err
	}
	defer func() { _ = unlock.Close() }()
	a, err := newArming(ctx, mac, p)
	if err != nil {
		return err
	}
	differs, err := a.differs(ctx)
	if err != nil || len(differs) == 0 {
		return err
	}
	if err := a.repair(ctx); err != nil {
		return err
	}
	if differs, err = a.differs(ctx); err != nil {
		return fmt.Errorf("looking at the firewall again: %w", err)
	}
	switch {
	case a.main != "":
		return step.Fail(document.Reboot, "%s; nothing but a reboot brings macOS's own ruleset back", a.main)
	case len(differs) > 0:
		return fmt.Errorf("the firewall did not take: %s", differs[0])
	}
	return nil
}

// Differs says how what is in force differs from the policy, and changes nothing.
func Differs(ctx context.Context, mac macos.Mac, p Policy) ([]string, error) {
	a, err := newArming(ctx, mac, p)
	if err != nil {
		return nil, err
	}
	return a.differs(ctx)
}

// LockArming keeps converge and hostd from arming at once: two changes of one
// anchor make the packet filter refuse one of them.
func LockArming(ctx context.Context, mac macos.Mac) (io.Closer, error) {
	unlock, err := step.Lock(ctx, mac, Lock, lockWait)
	if err != nil {
		return nil, fmt.Errorf("locking the firewall: %w", err)
	}
	return unlock, nil
}

// arming is one look at the firewall, and what it takes to repair it.
type arming struct {
	mac    macos.Mac
	subnet string
	wanted []Rule
	text   string
	boot   string
	record firewallRecord
	live   []string
	// on: somebody holds the packet filter on; enabled: we do.
	on      bool
	enabled bool
	rules   []string // how the live rules differ
	main    string   // why the main ruleset does not call ours
}

// record is what must not be forgotten. One that cannot be read is as good as none: a new
// reference is taken.
var record = step.Note[firewallRecord]{Path: File, What: "our reference to the packet filter"}

// firewallRecord is what must not be forgotten when the process dies.
type firewallRecord struct {
	// Token is our reference, and BootSession the boot that it belongs to.
	Token       string `json:"token"`
	BootSession string `json:"bootSession"`
	// KillPending is the boot in which rules were tightened and the guests' connections
	// from before that may be open still; empty: none are.
	KillPending string `json:"killOwed,omitempty"`
}

func newArming(ctx context.Context, mac macos.Mac, p Policy) (*arming, error) {
	a := &arming{mac: mac, subnet: p.Network.Subnet}
	var err error
	if a.wanted, err = Wanted(p); err != nil {
		return nil, step.Fail(document.Bug, "rendering the firewall: %w", err)
	}
	if a.text, err = Rules(p); err != nil {
		return nil, step.Fail(document.Bug, "rendering the firewall: %w", err)
	}
	a.boot, err = step.BootSession(ctx, mac)
	return a, err
}

// differs looks, and says what is wrong in words for people.
func (a *arming) differs(ctx context.Context) ([]string, error) {
	if err := a.observe(ctx); err != nil {
		return nil, err
	}
	differs := slices.Clone(a.rules)
	if a.main != "" {
		differs = append(differs, a.main)
	}
	if !a.enabled {
		differs = append(differs, "the packet filter is off, or on without a reference of ours")
	}
	if a.killPending() {
		differs = append(differs, "connections that guests opened before the rules were tightened have not been ended")
	}
	return differs, nil
}

// killPending: a reboot ends all connections, and with them what is pending.
func (a *arming) killPending() bool { return a.record.KillPending == a.boot }

func (a *arming) observe(ctx context.Context) error {
	pf := a.mac.Firewall
	own, err := pf.Addresses(ctx)
	if err != nil {
		return err
	}
	if a.live, err = pf.Rules(ctx, Anchor); err != nil {
		return fmt.Errorf("reading the firewall's rules: %w", err)
	}
	a.rules = Judge(a.live, a.wanted, own)
	main, err := pf.Rules(ctx, "")
	if err != nil {
		return fmt.Errorf("reading the main ruleset: %w", err)
	}
	a.main = JudgeMain(main)
	state, err := pf.State(ctx)
	if err != nil {
		return fmt.Errorf("asking whether the packet filter is enabled: %w", err)
	}
	if a.record, err = record.Read(a.mac.Files); err != nil {
		return err
	}
	held := a.record.BootSession == a.boot && slices.Contains(state.Tokens, a.record.Token)
	a.on, a.enabled = state.Enabled, state.Enabled && held
	return nil
}

// repair changes what the last look found wrong. The main ruleset is left as it is.
func (a *arming) repair(ctx context.Context) error {
	var err error
	switch {
	case len(a.rules) > 0:
		err = a.load(ctx)
	case a.killPending():
		err = a.killStates(ctx)
	}
	if a.enabled {
		return err
	}
	// Whatever failed: rules that are loaded do nothing while the packet filter is off.
	return errors.Join(err, a.enable(ctx))
}

// enable takes a reference of ours to the packet filter, and records it.
func (a *arming) enable(ctx context.Context) error {
	token, err := a.mac.Firewall.Enable(ctx)
	if err != nil {
		return fmt.Errorf("enabling the packet filter: %w", err)
	}
	a.record.Token, a.record.BootSession = token, a.boot
	err = record.Write(ctx, a.mac.Files, a.record)
	if err != nil && a.on {
		// Nobody would give it back, and each look would take another.
		return errors.Join(err, a.mac.Firewall.Release(ctx, token))
	}
	// One that alone keeps the packet filter on stays, and ends with the boot.
	return err
}

// load puts the rules into the anchor, and ends the guests' connections where the
// rules close what was open.
func (a *arming) load(ctx context.Context) error {
	if err := a.mac.Firewall.Check(ctx, Anchor, a.text); err != nil {
		return refusedBy("checking the firewall's rules", err)
	}
	var unrecorded error
	if !sameBut(a.live, a.wanted) {
		// First: once the rules match, nothing else tells that connections from before
		// them are open. On a full disk the rules are loaded all the same.
		a.record.KillPending = a.boot
		unrecorded = record.Write(ctx, a.mac.Files, a.record)
	}
	if err := LoadAnchor(ctx, a.mac, Anchor, a.text); err != nil || !a.killPending() {
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
	a.record.KillPending = ""
	return record.Write(ctx, a.mac.Files, a.record)
}

// LoadAnchor replaces the rules of an anchor, again if somebody else is at it.
func LoadAnchor(ctx context.Context, mac macos.Mac, anchor, rules string) error {
	for try := 1; ; try++ {
		err := mac.Firewall.Load(ctx, anchor, rules)
		if !busy(err) || try == busyTries {
			return refusedBy("loading the firewall's rules", err)
		}
		// Two who wait equally long meet again.
		if err := mac.Clock.Sleep(ctx, busyPause+rand.N(busyPause)*time.Duration(try)); err != nil {
			return err
		}
	}
}

// busy: pf refused because of another change, or of what is left of one.
func busy(err error) bool {
	f, refused := errors.AsType[*macos.FirewallError](err)
	return refused && f.Busy
}

// refusedBy classifies pf's refusal: rules that are wrong are a bug of ours.
func refusedBy(doing string, err error) error {
	var f *macos.FirewallError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f) && f.Syntax:
		return step.Fail(document.Bug, "%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
