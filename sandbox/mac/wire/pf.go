package wire

import (
	"net/netip"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
	"github.com/macfleet/macfleet/sandbox/mac/pf/vmnet"
)

// PFCall is one command line of pfctl.
type PFCall struct {
	Args  []string `json:"args"`
	Stdin []byte   `json:"stdin,omitempty"`
}

// NetworkCall asks for the Mac's interfaces. With Guest set it says instead that
// a guest of the shared network starts; it ends with the connection.
type NetworkCall struct {
	Guest string `json:"guest,omitempty"`
}

// NetworkAnswer is the reply to a NetworkCall.
type NetworkAnswer struct {
	Interfaces []pf.Interface `json:"interfaces,omitempty"`
	// Gateway is the Mac's address on the shared network, with the length of its
	// subnet; LeaseSeconds is how long DHCP lends an address there.
	Gateway      netip.Prefix `json:"gateway,omitzero"`
	LeaseSeconds int          `json:"leaseSeconds,omitempty"`
}

// PFOrder is an order about the packet filter. Exactly one of the pointers is
// set.
type PFOrder struct {
	Beliefs *pf.Beliefs `json:"beliefs,omitempty"`
	Packet  *pf.Packet  `json:"packet,omitempty"`
	Reach   *Reach      `json:"reach,omitempty"`
}

// Reach asks whether a packet arrives.
type Reach struct {
	From  netip.AddrPort `json:"from"`
	To    netip.AddrPort `json:"to"`
	Proto string         `json:"proto"`
}

// PFReply is the reply to a PFOrder.
type PFReply struct {
	Verdict *pf.Verdict `json:"verdict,omitempty"`
	Path    *vmnet.Path `json:"path,omitempty"`
}
