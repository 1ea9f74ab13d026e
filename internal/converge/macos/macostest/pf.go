package macostest

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// PF is the packet filter of a Mac in memory. It loads rules without tables, one a
// line, as ours are, and keeps the tables that a test puts into it.
type PF struct {
	// PersistIsBusy: a load is refused while a table that persists is anywhere.
	// That is one belief about what pf does; the other is Ticket.
	PersistIsBusy bool
	// FlushKeepsPersist: flushing tables spares those that persist.
	FlushKeepsPersist bool
	// BusyLoads is how many loads more meet another change under way.
	BusyLoads int
	// Unset makes loads succeed and change nothing.
	Unset bool
	// Main are the lines of the main ruleset.
	Main []string
	// Own are the Mac's addresses.
	Own []netip.Addr
	// Killed are the networks whose states were killed.
	Killed []string
	// Open are the guests that have connections.
	Open []netip.Addr

	enabled bool // without a token: others hold references
	tokens  []string
	issued  int
	anchors map[string][]string
	tables  map[string]*table // by scope and name
}

type table struct {
	persist bool
	// referred: rules of the scope name it.
	referred bool
	// pinned: something that nobody sees keeps it.
	pinned bool
}

func newPF() PF {
	return PF{
		Main: []string{`scrub-anchor "com.apple/*" all fragment reassemble`, `anchor "com.apple/*" all`},
		Own: []netip.Addr{
			netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("fe80::1%lo0"),
			netip.MustParseAddr("192.0.2.4"), netip.MustParseAddr("2001:db8::4"),
		},
		anchors: map[string][]string{}, tables: map[string]*table{},
	}
}

// forget is what a boot does to a packet filter.
func (p *PF) forget() {
	fresh := newPF()
	p.enabled, p.tokens, p.issued, p.Open = false, nil, 0, nil
	p.anchors, p.tables, p.Main = fresh.anchors, fresh.tables, fresh.Main
}

// PutTable makes a table that persists, as older systems left them. Rules of the
// scope may refer to it.
func (p *PF) PutTable(anchor, name string, referred bool) {
	p.tables[path.Join(anchor, name)] = &table{persist: true, referred: referred}
	if referred {
		p.anchors[anchor] = append(p.anchors[anchor], fmt.Sprintf("block drop out quick from <%s> to any", name))
	}
}

// Pin keeps a table until the next boot, whatever is done.
func (p *PF) Pin(anchor, name string) { p.tables[path.Join(anchor, name)].pinned = true }

// HasTable reports whether the table is in that scope.
func (p *PF) HasTable(anchor, name string) bool { return p.tables[path.Join(anchor, name)] != nil }

// Anchor returns the live rules of an anchor.
func (p *PF) Anchor(anchor string) []string { return p.anchors[anchor] }

// SetAnchor changes them behind converge's back.
func (p *PF) SetAnchor(anchor string, rules ...string) { p.anchors[anchor] = rules }

// Tokens are the references that are held.
func (p *PF) Tokens() []string { return p.tokens }

// VMNet is what starting the first guest does to pf: a reference of its own, and a
// new main ruleset.
func (p *PF) VMNet(keepsAnchors bool) {
	p.enabled = true
	p.Main = []string{`anchor "com.apple.internet-sharing" all`}
	if keepsAnchors {
		p.Main = append(p.Main, `anchor "com.apple/*" all`)
	}
}

type pf struct{ m *Mac }

var _ macos.Firewall = pf{}

func (f pf) State(context.Context) (macos.FirewallState, error) {
	p := &f.m.PF
	return macos.FirewallState{Enabled: p.enabled || len(p.tokens) > 0, Tokens: slices.Clone(p.tokens)}, nil
}

func (f pf) Rules(_ context.Context, anchor string) ([]string, error) {
	if anchor == "" {
		return slices.Clone(f.m.PF.Main), nil
	}
	return slices.Clone(f.m.PF.anchors[anchor]), nil
}

func (f pf) Check(_ context.Context, _, rules string) error {
	for line := range strings.Lines(rules) {
		if !strings.HasPrefix(line, "pass ") && !strings.HasPrefix(line, "block ") {
			return &macos.FirewallError{Verb: "-nf -", Text: "stdin:1: syntax error", Syntax: true}
		}
	}
	return nil
}

func (f pf) Load(ctx context.Context, anchor, rules string) error {
	if err := f.Check(ctx, anchor, rules); err != nil {
		return err
	}
	if err := f.m.change("pf load " + anchor); err != nil {
		return err
	}
	p := &f.m.PF
	if p.busy(rules) {
		return &macos.FirewallError{Verb: "-f -", Text: "stdin:1: cannot define table vm_sources: Resource busy", Busy: true}
	}
	if p.Unset {
		return nil
	}
	p.anchors[anchor] = p.expand(rules)
	for name, t := range p.tables {
		if path.Dir(name) == anchor {
			t.referred = false
		}
	}
	return nil
}

// busy: an empty ruleset defines nothing and can always be loaded.
func (p *PF) busy(rules string) bool {
	if p.BusyLoads > 0 {
		p.BusyLoads--
		return true
	}
	return p.PersistIsBusy && rules != "" && len(p.tables) > 0
}

// expand makes one rule an address of what is said of self.
func (p *PF) expand(rules string) []string {
	var live []string
	for line := range strings.Lines(rules) {
		line = strings.TrimSpace(line)
		if !strings.Contains(line, " self") {
			live = append(live, line)
			continue
		}
		for _, a := range p.Own {
			if strings.Contains(line, " inet6 ") == a.Is6() {
				live = append(live, strings.Replace(line, " self", " "+a.WithZone("").String(), 1))
			}
		}
	}
	return live
}

func (f pf) Tables(_ context.Context, anchor string) ([]string, error) {
	var names []string
	for name := range f.m.PF.tables {
		if dir := path.Dir(name); dir == anchor || (anchor == "" && dir == ".") {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// KillTable leaves a table that rules refer to as it is.
func (f pf) KillTable(_ context.Context, anchor, name string) error {
	t := f.m.PF.tables[path.Join(anchor, name)]
	if t == nil {
		return nil
	}
	if err := f.m.change("pf kill " + path.Join(anchor, name)); err != nil {
		return err
	}
	if !t.referred && !t.pinned {
		delete(f.m.PF.tables, path.Join(anchor, name))
	}
	return nil
}

func (f pf) FlushTables(ctx context.Context, anchor string) error {
	names, err := f.Tables(ctx, anchor)
	if err != nil || len(names) == 0 {
		return err
	}
	if err := f.m.change("pf flush " + anchor); err != nil {
		return err
	}
	for _, name := range names {
		t := f.m.PF.tables[path.Join(anchor, name)]
		if !t.referred && !t.pinned && (!t.persist || !f.m.PF.FlushKeepsPersist) {
			delete(f.m.PF.tables, path.Join(anchor, name))
		}
	}
	return nil
}

func (f pf) Enable(context.Context) (string, error) {
	if err := f.m.change("pf enable"); err != nil {
		return "", err
	}
	p := &f.m.PF
	p.issued++
	token := strconv.Itoa(17_000_000 + p.issued)
	p.tokens = append(p.tokens, token)
	return token, nil
}

func (f pf) Release(_ context.Context, token string) error {
	if err := f.m.change("pf release"); err != nil {
		return err
	}
	p := &f.m.PF
	i := slices.Index(p.tokens, token)
	if i < 0 {
		return &macos.FirewallError{Verb: "-X", Text: "pfctl: invalid token"}
	}
	p.tokens = slices.Delete(p.tokens, i, i+1)
	return nil
}

func (f pf) KillStates(_ context.Context, cidr string) error {
	if err := f.m.change("pf states " + cidr); err != nil {
		return err
	}
	f.m.PF.Killed = append(f.m.PF.Killed, cidr)
	network, err := netip.ParsePrefix(cidr)
	f.m.PF.Open = slices.DeleteFunc(f.m.PF.Open, network.Contains)
	return err
}

func (f pf) Addresses(context.Context) ([]netip.Addr, error) { return slices.Clone(f.m.PF.Own), nil }

// GuestNet is the guests' network of a Mac in memory.
type GuestNet struct {
	Address, Mask string
	LeaseSeconds  int
}

type guestNet struct{ m *Mac }

var _ macos.GuestNet = guestNet{}

func (g guestNet) Subnet(context.Context) (address, mask string, err error) {
	return g.m.GuestNet.Address, g.m.GuestNet.Mask, nil
}

func (g guestNet) SetSubnet(_ context.Context, address, mask string) error {
	if err := g.m.change("subnet"); err != nil {
		return err
	}
	g.m.GuestNet.Address, g.m.GuestNet.Mask = address, mask
	return nil
}

func (g guestNet) Lease(context.Context) (int, error) { return g.m.GuestNet.LeaseSeconds, nil }

func (g guestNet) SetLease(_ context.Context, seconds int) error {
	if err := g.m.change("lease"); err != nil {
		return err
	}
	g.m.GuestNet.LeaseSeconds = seconds
	return nil
}

func (g guestNet) Reset(context.Context) error {
	if err := g.m.change("reset guests' network"); err != nil {
		return err
	}
	g.m.GuestNet = GuestNet{}
	return nil
}
