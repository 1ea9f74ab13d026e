package guest

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// raiseLoopback brings up the one interface that a new network has.
func raiseLoopback() error {
	return onSocket(func(socket int) error {
		request, err := unix.NewIfreq("lo")
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(socket, unix.SIOCGIFFLAGS, request); err != nil {
			return fmt.Errorf("reading the flags of lo: %w", err)
		}
		request.SetUint16(request.Uint16() | unix.IFF_UP)
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
			return refused("bringing up lo", err)
		}
		return nil
	})
}

// SetAddress gives a guest with a network of its own the address that it was leased, so
// that what listens on all addresses is found at this one, too.
func (i *Inside) SetAddress(text string) error {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return fmt.Errorf("%q is no IPv4 address", text)
	}
	if !i.ownNetwork {
		return nil
	}
	return onSocket(func(socket int) error {
		// An alias, and a mask of one address: all of a wider network would be the guest.
		for _, set := range []struct {
			request uint
			value   netip.Addr
		}{{unix.SIOCSIFADDR, address}, {unix.SIOCSIFNETMASK, netip.AddrFrom4([4]byte{255, 255, 255, 255})}} {
			request, err := unix.NewIfreq("lo:1")
			if err != nil {
				return err
			}
			if err := request.SetInet4Addr(set.value.AsSlice()); err != nil {
				return err
			}
			if err := unix.IoctlIfreq(socket, set.request, request); err != nil {
				return refused("setting the guest's address", err)
			}
		}
		return nil
	})
}

func onSocket(do func(socket int) error) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(socket) //nolint:errcheck // nothing was written to it
	return do(socket)
}
