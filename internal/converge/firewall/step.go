package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// Predecessor is what an older system left in the packet filter.
type Predecessor interface {
	// Left says what is left of it.
	Left(ctx context.Context) ([]string, error)
	// MakeWay removes what is in force of it, until the next boot.
	MakeWay(ctx context.Context) error
	// Clear removes it for good.
	Clear(ctx context.Context) error
}

// guard is the step.
type guard struct {
	*step.Env
	predecessor Predecessor
}

// Step puts the rules around the Mac and its guests, and clears what older
// systems left. Where the Mac is taken over, that is another step's: theirs stay until
// ours outlive a boot.
func Step(env *step.Env, predecessor Predecessor) step.Step {
	g := guard{env, predecessor}
	return step.Step{
		Name: "firewall",
		About: "Loads the rules around the Mac and its guests into the packet filter's anchor " + Anchor +
			": what comes in is dropped but for SSH, the kubelet's port, pings, what an address takes, and the profile's `network.hostIngress`." +
			" It keeps the packet filter enabled with one reference. /etc/pf.conf and the main ruleset are not touched," +
			" but for lines of older systems, which go once our rules are in force.",
		Undo: "sudo pfctl -a " + Anchor + " -F rules, then sudo pfctl -X with the token in " + File + "." +
			" A reboot does both.",
		Check: func(ctx context.Context) ([]string, error) {
			if err := g.requireManagerAllowed(); err != nil {
				return nil, err
			}
			differs, err := Differs(ctx, g.Mac, g.policy())
			if err != nil || g.TakeOver {
				return differs, err
			}
			left, err := g.predecessor.Left(ctx)
			return append(left, differs...), err
		},
		Act: func(ctx context.Context) error {
			// Ours first, and whatever becomes of the rest: until they are in force, an
			// older system's are better than none.
			err := g.arm(ctx)
			if g.TakeOver {
				return err
			}
			return errors.Join(err, g.predecessor.Clear(ctx))
		},
		TakeBack: g.disarm,
	}
}

func (g guard) policy() Policy {
	return PolicyOf(g.Desired.Host, g.Desired.Mac, g.Desired.Kubelet)
}

// arm arms, and where pf stays busy once more without what an older system has in it:
// its tables may be what is in the way.
func (g guard) arm(ctx context.Context) error {
	err := Arm(ctx, g.Mac, g.policy())
	if !busy(err) {
		return err
	}
	left, failed := g.predecessor.Left(ctx)
	if failed == nil && len(left) > 0 {
		if failed = g.predecessor.MakeWay(ctx); failed == nil {
			return Arm(ctx, g.Mac, g.policy())
		}
	}
	return errors.Join(err, failed)
}

// requireManagerAllowed refuses rules that would shut the manager out, while it still can be
// told: afterwards nobody could take them back. The Mac's own loopback is never shut.
func (g guard) requireManagerAllowed() error {
	from, allowed := g.Desired.Host.ManagedFrom, g.Desired.Mac.Network.SSHFrom
	if from == "" || len(allowed) == 0 {
		return nil
	}
	manager, err := netip.ParseAddr(from)
	if err != nil {
		return step.Fail(document.Bug, "reading from where the manager reaches this Mac: %w", err)
	}
	contains := func(network string) bool {
		prefix, err := netip.ParsePrefix(network)
		return err == nil && prefix.Contains(manager)
	}
	if manager.IsLoopback() || slices.ContainsFunc(allowed, contains) {
		return nil
	}
	return step.Fail(document.Human, "network.sshIngress.allow does not contain %s, from where the manager reaches this Mac: add it to the profile", manager)
}

// disarm takes the rules and the reference away.
func (g guard) disarm(ctx context.Context) error {
	unlock, err := LockArming(ctx, g.Mac)
	if err != nil {
		return err
	}
	defer func() { _ = unlock.Close() }()
	live, err := g.Mac.Firewall.Rules(ctx, Anchor)
	if err != nil {
		return fmt.Errorf("reading the firewall's rules: %w", err)
	}
	if len(live) > 0 {
		if err := LoadAnchor(ctx, g.Mac, Anchor, ""); err != nil {
			return err
		}
	}
	return g.releaseToken(ctx)
}

// releaseToken gives our reference back, unless a boot has taken it.
func (g guard) releaseToken(ctx context.Context) error {
	held, err := record.Read(g.Mac.Files)
	if err != nil {
		return err
	}
	state, err := g.Mac.Firewall.State(ctx)
	if err != nil {
		return fmt.Errorf("asking whether the packet filter is enabled: %w", err)
	}
	boot, err := step.BootSession(ctx, g.Mac)
	if err != nil {
		return err
	}
	if held.BootSession == boot && slices.Contains(state.Tokens, held.Token) {
		if err := g.Mac.Firewall.Release(ctx, held.Token); err != nil {
			return fmt.Errorf("giving our reference to the packet filter back: %w", err)
		}
	}
	return g.Mac.Files.Remove(File)
}
