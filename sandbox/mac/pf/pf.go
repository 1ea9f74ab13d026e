// Package pf is the packet filter of a simulated Mac: the rulesets, tables,
// transaction tickets, enable references and states a kernel keeps, pfctl's
// grammar and command line on top of them, and an oracle that says what becomes
// of a packet. It does no I/O of its own: files, interfaces and time are handed
// in. Nothing in it survives a boot; whoever boots a Mac makes a new [Filter].
//
// # What is modelled
//
// Rules of pass, block, nat, rdr, scrub and of the anchor points; macros, lists
// and tables; the order of sections. Lists, `self` and names of interfaces are
// expanded when rules are loaded; `(self)` and `(en0)` stay dynamic, and a
// dynamic `(self)` matches nothing, since macOS keeps no interface groups. What
// pfctl knows and this package does not is refused with a *NotModelled, never
// taken for a syntax error.
//
// # What is left out
//
// The oracle looks at the first packet of a conversation, or at one in the middle
// of TCP; of other flags than S/SA and of fragments it knows nothing, and redirections are kept and printed but not
// followed. Queues, dummynet and fingerprints do not exist.
package pf

import (
	"net/netip"
	"sync"
	"time"
)

// Beliefs settle what is not known for certain of the real packet filter. The
// zero value is what its sources say.
type Beliefs struct {
	// FlushKeepsPersist: -F Tables empties persistent tables and keeps them.
	FlushKeepsPersist bool `json:"flushKeepsPersist,omitempty"`
	// PersistIsBusy: a table cannot be defined while a persistent one of its name
	// is active in the same scope or in the main one.
	PersistIsBusy bool `json:"persistIsBusy,omitempty"`
	// RaceBusy: loads take long enough to meet. The older of two of one anchor is
	// refused as busy.
	RaceBusy bool `json:"raceBusy,omitempty"`
	// ServiceNames: ports are printed by their name where they have one.
	ServiceNames bool `json:"serviceNames,omitempty"`
	// VMNetReplacesMain: each start of a guest replaces the main ruleset; rules of
	// others are gone, the calls of com.apple/* stay.
	VMNetReplacesMain bool `json:"vmnetReplacesMain,omitempty"`
	// VMNetDropsAnchorCalls: it drops the calls of com.apple/* as well.
	VMNetDropsAnchorCalls bool `json:"vmnetDropsAnchorCalls,omitempty"`
}

// Interface is a network interface of the Mac.
type Interface struct {
	Name  string `json:"name"`
	Ether string `json:"ether,omitempty"`
	// Addresses with the length of their network.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
}

// Options of a Filter. Everything may be left out.
type Options struct {
	// Interfaces there are at the moment of the call.
	Interfaces func() []Interface
	// Window passes between the beginning of a load and its end while
	// Beliefs.RaceBusy is set. The filter is not locked then.
	Window func()
	// Now is the time; time.Now when nil.
	Now func() time.Time
}

// Filter is a packet filter. Its methods may be called from many goroutines.
type Filter struct {
	o Options

	mu       sync.Mutex
	beliefs  Beliefs
	anchors  map[string]*ruleset
	tables   tables
	refs     []Reference
	lone     bool      // enabled by -e, which leaves no reference
	issued   uint64    // the newest token
	tickets  uint64    // how many transactions began
	since    time.Time // enabled since
	sessions []State
}

// New is the packet filter at boot: empty and disabled.
func New(o Options) *Filter {
	if o.Interfaces == nil {
		o.Interfaces = func() []Interface { return nil }
	}
	if o.Window == nil {
		o.Window = func() {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Filter{
		o: o, anchors: map[string]*ruleset{"": {}}, tables: tables{},
		issued: uint64(o.Now().UnixNano()) | 1<<62,
	}
}

// SetBeliefs changes what is believed, from now on.
func (f *Filter) SetBeliefs(b Beliefs) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beliefs = b
}

// Beliefs are what is believed now.
func (f *Filter) Beliefs() Beliefs {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.beliefs
}
