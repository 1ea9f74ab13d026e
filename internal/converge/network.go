package converge

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// guestLease is for how long guests get their addresses, in seconds. The default
// of a day uses a /24 up in 253 guests.
const guestLease = 600

// network pins the guests' subnet, which the firewall's rules name, and keeps
// their addresses from running out.
type network struct{ *step.Env }

func (x network) step() step.Step {
	return step.Step{
		Name: "network",
		About: "Pins the subnet that vmnet gives guests (com.apple.vmnet) and shortens their DHCP leases to ten minutes" +
			" (com.apple.InternetSharing.default).",
		Undo: "Delete Shared_Net_Address and Shared_Net_Mask from com.apple.vmnet and bootpd from" +
			" com.apple.InternetSharing.default, both below /Library/Preferences/SystemConfiguration, with sudo defaults delete.",
		Check: func(ctx context.Context) ([]string, error) {
			now, err := x.guestNet(ctx)
			return now.differs(x.wantedNet()), err
		},
		Act:      x.setGuestNet,
		TakeBack: func(ctx context.Context) error { return x.Mac.GuestNet.Reset(ctx) },
	}
}

// guestNet is how guests get addresses.
type guestNet struct {
	address, mask string
	lease         int
}

func (x network) wantedNet() guestNet {
	// The document was validated: it is a CIDR.
	subnet, _ := netip.ParsePrefix(x.Desired.Mac.Network.Subnet)
	return guestNet{
		address: firewall.Gateway(subnet).String(),
		mask:    net.IP(net.CIDRMask(subnet.Bits(), subnet.Addr().BitLen())).String(),
		lease:   guestLease,
	}
}

func (x network) guestNet(ctx context.Context) (guestNet, error) {
	var now guestNet
	var err error
	if now.address, now.mask, err = x.Mac.GuestNet.Subnet(ctx); err != nil {
		return now, fmt.Errorf("reading the guests' subnet: %w", err)
	}
	if now.lease, err = x.Mac.GuestNet.Lease(ctx); err != nil {
		return now, fmt.Errorf("reading the guests' DHCP lease time: %w", err)
	}
	return now, nil
}

func (n guestNet) differs(wanted guestNet) []string {
	var all []string
	if n.address != wanted.address || n.mask != wanted.mask {
		all = append(all, fmt.Sprintf("the guests' subnet is %s, not %s %s", n.subnet(), wanted.address, wanted.mask))
	}
	if n.lease != wanted.lease {
		all = append(all, fmt.Sprintf("guests' DHCP leases last %d s, not %d s", n.lease, wanted.lease))
	}
	return all
}

func (n guestNet) subnet() string {
	if n.address == "" && n.mask == "" {
		return "not set"
	}
	return fmt.Sprintf("%.32q %.32q", n.address, n.mask)
}

func (x network) setGuestNet(ctx context.Context) error {
	now, err := x.guestNet(ctx)
	if err != nil {
		return err
	}
	wanted := x.wantedNet()
	if now.lease != wanted.lease {
		if err := x.Mac.GuestNet.SetLease(ctx, wanted.lease); err != nil {
			return err
		}
	}
	if now.address == wanted.address && now.mask == wanted.mask {
		return nil
	}
	if err := x.mayChangeSubnet(ctx, now); err != nil {
		return err
	}
	return x.Mac.GuestNet.SetSubnet(ctx, wanted.address, wanted.mask)
}

// mayChangeSubnet: guests keep the addresses they have, so that a running one would
// be outside the rules. To pin the subnet that vmnet uses anyway changes nothing.
func (x network) mayChangeSubnet(ctx context.Context, now guestNet) error {
	if now.address == "" && x.Desired.Mac.Network.Subnet == document.DefaultSubnet {
		return nil
	}
	return x.NoGuests(ctx, "the guests' subnet becomes "+x.Desired.Mac.Network.Subnet)
}
