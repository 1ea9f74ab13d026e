package tart

import (
	"net/netip"
	"strings"
	"time"
)

// What a shared network is like unless somebody says otherwise.
const (
	defaultNetwork   = "192.168.64"
	defaultLeaseTime = 24 * time.Hour
)

// network is what a Mac says of its shared network; the zero value when there is
// no Mac to ask.
type network struct {
	gateway      netip.Prefix
	leaseSeconds int
}

// dhcp completes a DHCP server: what the plan asks for comes first, then what the
// Mac's settings say. A subnet of more than 256 addresses is cut down to those
// around the gateway.
func (n network) dhcp(d dhcp, plan Plan) dhcp {
	d.Network, d.Time = plan.Network, time.Duration(plan.LeaseTime)
	if d.Network == "" && n.gateway.IsValid() {
		gateway := n.gateway.Addr().String()
		d.Network = gateway[:strings.LastIndexByte(gateway, '.')]
	}
	if d.Network == "" {
		d.Network = defaultNetwork
	}
	if d.Time == 0 {
		d.Time = time.Duration(n.leaseSeconds) * time.Second
	}
	if d.Time == 0 {
		d.Time = defaultLeaseTime
	}
	return d
}
