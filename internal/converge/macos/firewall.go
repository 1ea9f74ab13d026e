package macos

import (
	"context"
	"fmt"
	"net/netip"
)

// FirewallState is the packet filter as a whole.
type FirewallState struct {
	Enabled bool
	// Tokens are the references that keep it enabled, as pf numbers them.
	Tokens []string
}

// Firewall is the packet filter. Anchors are named by their path; the main
// ruleset is the empty one. Refusals of pf itself are *FirewallError.
type Firewall interface {
	State(ctx context.Context) (FirewallState, error)
	// Rules are the live filter rules, as pf prints them: one a line, normalised,
	// ports as numbers. There are none in an anchor that does not exist.
	Rules(ctx context.Context, anchor string) ([]string, error)
	// Check parses rules and loads nothing.
	Check(ctx context.Context, anchor, rules string) error
	// Load replaces the rules of an anchor. For the main ruleset it is an error:
	// daemons keep rules of their own in it, which a load would purge.
	Load(ctx context.Context, anchor, rules string) error
	// Tables are the names of the tables in that one scope.
	Tables(ctx context.Context, anchor string) ([]string, error)
	// KillTable removes one table from that one scope; none there is fine.
	KillTable(ctx context.Context, anchor, table string) error
	// FlushTables removes the tables of the scope that no rule refers to.
	FlushTables(ctx context.Context, anchor string) error
	// Enable takes a reference. Each call makes a new one, to be released.
	Enable(ctx context.Context) (token string, err error)
	Release(ctx context.Context, token string) error
	// KillStates forgets the connections from a network.
	KillStates(ctx context.Context, cidr string) error
	// Addresses are those the Mac has now: what pf makes of "self" when rules are
	// loaded.
	Addresses(ctx context.Context) ([]netip.Addr, error)
}

// FirewallError is pf's refusal.
type FirewallError struct {
	Verb string
	Text string
	// Busy: another change was under way, or the anchor is defined twice.
	Busy bool
	// Syntax: the rules are wrong.
	Syntax bool
}

func (e *FirewallError) Error() string { return fmt.Sprintf("pfctl %s: %s", e.Verb, e.Text) }

// GuestNet is the network that vmnet makes for guests. What is set counts from the
// next time that it is made: when the first guest starts.
type GuestNet interface {
	// Subnet is the Mac's address in the network and the mask, empty where nobody set
	// them.
	Subnet(ctx context.Context) (address, mask string, err error)
	SetSubnet(ctx context.Context, address, mask string) error
	// Lease is for how long guests get their addresses, in seconds; 0: nobody set it.
	Lease(ctx context.Context) (seconds int, err error)
	SetLease(ctx context.Context, seconds int) error
	// Reset removes what was set.
	Reset(ctx context.Context) error
}
