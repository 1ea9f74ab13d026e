package macos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// vmnet is the guests' network of this Mac, through its preferences.
type vmnet struct{}

var _ GuestNet = vmnet{}

// Preferences of vmnet and of the DHCP server beside it.
const (
	vmnetDomain   = "/Library/Preferences/SystemConfiguration/com.apple.vmnet"
	sharingDomain = "/Library/Preferences/SystemConfiguration/com.apple.InternetSharing.default"
	addressKey    = "Shared_Net_Address"
	maskKey       = "Shared_Net_Mask"
	// bootpdKey holds a dictionary of settings of the DHCP server.
	bootpdKey = "bootpd"
	leaseKey  = "DHCPLeaseTimeSecs"
)

// Subnet implements GuestNet.
func (vmnet) Subnet(ctx context.Context) (address, mask string, err error) {
	values, err := localDefaults{}.Values(ctx, vmnetDomain)
	return values[addressKey], values[maskKey], err
}

// SetSubnet implements GuestNet.
func (vmnet) SetSubnet(ctx context.Context, address, mask string) error {
	d := localDefaults{}
	if err := d.WriteString(ctx, vmnetDomain, addressKey, address); err != nil {
		return err
	}
	return d.WriteString(ctx, vmnetDomain, maskKey, mask)
}

// Lease implements GuestNet.
func (vmnet) Lease(ctx context.Context) (int, error) {
	all, err := localDefaults{}.export(ctx, sharingDomain)
	return leaseSeconds(all[bootpdKey]), err
}

// SetLease implements GuestNet.
func (vmnet) SetLease(ctx context.Context, seconds int) error {
	// A property list as the value, and not in the old style: that one has no numbers.
	value := "<dict><key>" + leaseKey + "</key><integer>" + strconv.Itoa(seconds) + "</integer></dict>"
	if _, err := run(ctx, defaultsCommand, "write", sharingDomain, bootpdKey, value); err != nil {
		return fmt.Errorf("writing the DHCP lease time: %w", err)
	}
	return nil
}

// Reset implements GuestNet.
func (vmnet) Reset(ctx context.Context) error {
	d := localDefaults{}
	return errors.Join(
		d.Delete(ctx, vmnetDomain, addressKey), d.Delete(ctx, vmnetDomain, maskKey), d.Delete(ctx, sharingDomain, bootpdKey))
}

// leaseSeconds is the lease time in the settings of the DHCP server. 0: it is not in there.
func leaseSeconds(bootpd any) int {
	settings, _ := bootpd.(map[string]any)
	n, err := strconv.ParseUint(fmt.Sprint(settings[leaseKey]), 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}
