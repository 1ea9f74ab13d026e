package health

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// A kubelet's thresholds: how much of a volume must be free.
const (
	NodePercent  = 10
	ImagePercent = 15
	// relief in percent of the volume must be free beyond the threshold before the
	// pressure is over, so that it does not come and go with each file.
	relief = 2
	// ImageReliefPercent of the images' volume in use at most ends its pressure.
	ImageReliefPercent = 100 - ImagePercent - relief
)

// Volume that must keep something free.
type Volume struct {
	// Name for people, and a path on it.
	Name, Path string
	// Percent of it that must be free.
	Percent int64
}

// NewDisks watches some volumes.
func NewDisks(volumes []Volume, read func(ctx context.Context, path string) (hostos.Disk, error)) *Disks {
	return &Disks{volumes: volumes, read: read, short: map[string]bool{}}
}

// Disks knows which volumes are short, for DiskPressure and for whoever ends it.
type Disks struct {
	volumes []Volume
	read    func(ctx context.Context, path string) (hostos.Disk, error)
	mu      sync.Mutex
	short   map[string]bool
}

// Check is DiskPressure.
func (d *Disks) Check() Check { return Check{Type: corev1.NodeDiskPressure, Look: d.look} }

func (d *Disks) look(ctx context.Context) (Finding, error) {
	found, failed := d.find(ctx)
	var words []string
	for _, s := range found {
		words = append(words, fmt.Sprintf("less than %d %% of the volume of %s (%s) is free", s.volume.Percent, s.volume.Name, s.volume.Path))
	}
	if len(words) > 0 {
		return pressed("AgentHasDiskPressure", strings.Join(words, "; ")), nil
	}
	return relieved("AgentHasNoDiskPressure"), failed
}

// Short reads the volumes now, and returns those that are short.
func (d *Disks) Short(ctx context.Context) ([]Shortage, error) {
	found, failed := d.find(ctx)
	var list []Shortage
	for _, s := range found {
		list = append(list, Shortage{
			Resource:  corev1.ResourceEphemeralStorage,
			Threshold: bytes(s.disk.TotalBytes / 100 * s.volume.Percent), Available: bytes(s.disk.FreeBytes),
		})
	}
	return list, failed
}

// shortVolume is one, with what was read.
type shortVolume struct {
	volume Volume
	disk   hostos.Disk
}

// find reads the volumes; the error is that of those which cannot be read.
func (d *Disks) find(ctx context.Context) (list []shortVolume, failed error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range d.volumes {
		disk, err := d.read(ctx, v.Path)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if d.short[v.Name] = short(disk, v.Percent, d.short[v.Name]); d.short[v.Name] {
			list = append(list, shortVolume{v, disk})
		}
	}
	return list, failed
}

// short reports whether a volume is; one that was is for a little longer.
func short(d hostos.Disk, percent int64, was bool) bool {
	if was {
		percent += relief
	}
	return d.TotalBytes > 0 && d.FreeBytes < d.TotalBytes/100*percent
}

func pressed(reason, message string) Finding {
	return Finding{Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

func relieved(reason string) Finding {
	return Finding{Status: corev1.ConditionFalse, Reason: reason}
}

// Pressures are the checks of memory and processes.
func Pressures(read func() (hostos.Pressure, error)) []Check {
	of := func(t corev1.NodeConditionType, fine, wrong string, is func(hostos.Pressure) bool) Check {
		return Check{Type: t, Look: func(context.Context) (Finding, error) {
			p, err := read()
			if err == nil && is(p) {
				return pressed(wrong, ""), nil
			}
			return relieved(fine), err
		}}
	}
	return []Check{
		of(corev1.NodeMemoryPressure, "AgentHasSufficientMemory", "AgentHasInsufficientMemory", func(p hostos.Pressure) bool { return p.Memory }),
		of(corev1.NodePIDPressure, "AgentHasSufficientPID", "AgentHasInsufficientPID", func(p hostos.Pressure) bool { return p.Processes }),
	}
}

// LeasesFile is where macOS's DHCP server keeps its leases.
const LeasesFile = "/var/db/dhcpd_leases"

const (
	// fullPercent of the addresses in use is when new guests may soon get none.
	fullPercent = 90
	// longLease: a lease of a day, the system's default, uses up a /24 in a day of
	// short guests. The slack is for clocks.
	longLease = time.Hour + 5*time.Minute
)

// Leases is the check of the addresses that guests are given: those in the file, of
// the subnet. now is the time of day.
func Leases(file string, subnet netip.Prefix, now func() time.Time) Check {
	return Check{Type: DHCPPoolHealthy, Look: func(context.Context) (Finding, error) {
		if !subnet.IsValid() {
			return well(ReasonNotRequired), nil
		}
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Finding{}, fmt.Errorf("reading the DHCP leases: %w", err)
		}
		used, longest := hostos.LiveLeases(string(data), subnet, now())
		return pool(used, usable(subnet), longest), nil
	}}
}

// usable addresses: not the network's, the host's own, and the broadcast's.
func usable(subnet netip.Prefix) int {
	bits := subnet.Addr().BitLen() - subnet.Bits()
	return max(1, 1<<min(bits, 16)-3)
}

func pool(used, all int, longest time.Duration) Finding {
	switch {
	case used*100 >= all*fullPercent:
		return bad(ReasonAddressesGone, "at least %d %% of the %d addresses for guests are leased: new guests may get none; with no guest running, "+
			"sudo rm %s; the profile's network makes leases short", fullPercent, all, LeasesFile)
	case longest > longLease:
		f := well(ReasonLongLeases)
		f.Message = "leases last longer than an hour, so that short guests may use all addresses up; the profile's network makes them short"
		return f
	}
	return well(ReasonAddressesFree)
}
