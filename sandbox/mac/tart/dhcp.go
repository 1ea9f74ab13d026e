package tart

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// dhcp is the server of a Mac's shared network.
type dhcp struct {
	File    string        `json:"file"`
	Lock    string        `json:"lock"` // stands for there being one server
	Network string        `json:"network"`
	Time    time.Duration `json:"time"`
	Offset  time.Duration `json:"offset,omitempty"` // of its clock
	Empty   bool          `json:"empty,omitempty"`  // others have all addresses
}

func (d dhcp) now() time.Time { return time.Now().Add(d.Offset) }

// openDHCP is the server with its files open: a guest asks it from where no path
// leads to them.
type openDHCP struct {
	dhcp
	files *os.Root // where the lease file is
	lock  *os.File
}

func (d dhcp) open() (*openDHCP, error) {
	o := &openDHCP{dhcp: d}
	for _, dir := range []string{filepath.Dir(d.Lock), filepath.Dir(d.File)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, fmt.Errorf("preparing DHCP: %w", err)
		}
	}
	var err error
	if o.lock, err = os.OpenFile(d.Lock, os.O_CREATE|os.O_RDONLY, 0o644); err != nil {
		return nil, fmt.Errorf("preparing DHCP: %w", err)
	}
	if o.files, err = os.OpenRoot(filepath.Dir(d.File)); err != nil {
		return nil, fmt.Errorf("preparing DHCP: %w", err)
	}
	return o, nil
}

// grant renews the lease of a client or gives it the lowest free address. An address
// is free again only when its lease has expired. ip is empty when the pool is. With
// stale, a wrong lease of the same client stands beside the right one and looks newer.
func (d *openDHCP) grant(hardware string, now time.Time, stale bool) (ip string, err error) {
	if err := unix.Flock(int(d.lock.Fd()), unix.LOCK_EX); err != nil {
		return "", fmt.Errorf("waiting for the DHCP server: %w", err)
	}
	defer func() { _ = unix.Flock(int(d.lock.Fd()), unix.LOCK_UN) }()
	data, err := d.files.ReadFile(filepath.Base(d.File))
	if err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("reading the DHCP leases: %w", err)
	}
	leases := parseLeases(data)
	if d.Empty {
		leases = d.exhaust(leases, now)
	}
	leases, ip = d.add(leases, hardware, now)
	if ip == "" && !d.Empty {
		return "", nil
	}
	if stale {
		leases = append(leases, lease{ip: d.Network + ".254", hardware: hardware, expires: now.Add(d.Time + time.Hour)})
	}
	return ip, d.write(leases)
}

// exhaust gives every free address to somebody else.
func (d dhcp) exhaust(leases []lease, now time.Time) []lease {
	used := map[string]bool{}
	for _, l := range leases {
		if l.expires.After(now) {
			used[l.ip] = true
		}
	}
	for ip := d.free(used); ip != ""; ip = d.free(used) {
		host := netip.MustParseAddr(ip).As4()[3]
		leases = append(leases, lease{ip: ip, hardware: fmt.Sprintf("1,2:0:0:0:0:%x", host), expires: now.Add(d.Time)})
		used[ip] = true
	}
	return leases
}

func (d dhcp) add(leases []lease, hardware string, now time.Time) ([]lease, string) {
	used := map[string]bool{}
	var kept []lease
	mine := lease{hardware: hardware, expires: now.Add(d.Time)}
	for _, l := range leases {
		switch {
		case l.hardware == hardware:
			mine.ip = l.ip
		case l.expires.After(now):
			used[l.ip] = true
			kept = append(kept, l)
		}
	}
	if mine.ip == "" || used[mine.ip] {
		mine.ip = d.free(used)
	}
	if mine.ip == "" {
		return kept, ""
	}
	return append(kept, mine), mine.ip
}

// free leaves out .1, the Mac itself, and .255, the broadcast address.
func (d dhcp) free(used map[string]bool) string {
	for host := 2; host < 255; host++ {
		if ip := fmt.Sprintf("%s.%d", d.Network, host); !used[ip] {
			return ip
		}
	}
	return ""
}

// write replaces the file in one step, since readers take no lock.
func (d *openDHCP) write(leases []lease) error {
	var b strings.Builder
	for _, l := range leases {
		b.WriteString(l.String())
	}
	name := filepath.Base(d.File)
	if err := d.files.WriteFile(name+".next", []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the DHCP leases: %w", err)
	}
	return d.files.Rename(name+".next", name)
}
