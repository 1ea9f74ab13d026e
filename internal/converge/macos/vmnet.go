package macos

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	d := localDefaults{}
	if address, _, err = d.Read(ctx, vmnetDomain, addressKey); err != nil {
		return "", "", err
	}
	mask, _, err = d.Read(ctx, vmnetDomain, maskKey)
	return address, mask, err
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
	text, found, err := localDefaults{}.Read(ctx, sharingDomain, bootpdKey)
	if err != nil || !found {
		return 0, err
	}
	return parseLease(text), nil
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

// parseLease reads the lease time from the dictionary as the command prints it,
// one "key = value;" a line. 0: it is not in there.
func parseLease(text string) int {
	for line := range strings.SplitSeq(text, "\n") {
		key, value, found := strings.Cut(strings.Trim(strings.TrimSpace(line), "{};"), "=")
		if !found || strings.Trim(strings.TrimSpace(key), `"`) != leaseKey {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"; `), 10, 31)
		if err == nil {
			return int(n)
		}
	}
	return 0
}
