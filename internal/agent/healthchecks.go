package agent

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/macfleet/macfleet/internal/agent/guard"
	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/tart"
)

// checks are what guests need of this host, for the conditions of its Node.
func (a *agent) checks(keychain *health.Keychain, disks *health.Disks) ([]health.Check, error) {
	path, err := tart.Find(a.o.Tart)
	if err != nil {
		return nil, UsageError{err}
	}
	// Away from macOS the agent runs for tests only, as anybody.
	tool := health.Tool{Probe: a.driver.Probe, Path: path, Root: runtime.GOOS == "darwin" && os.Geteuid() == 0}
	if t := a.config.Mac.Tart; t != nil {
		tool.Version = t.Version
	}
	hostd := health.Hostd{NeedSession: a.config.Mac.AutoLogin, Refusal: keychain.Refusal}
	if socket := a.hostdSocket(); socket != "" {
		hostd.Ask = guard.Gate{Socket: socket}.Status
	}
	subnet, err := guestSubnet(a.config.Mac.Network.Subnet)
	if err != nil {
		return nil, err
	}
	checks := []health.Check{tool.Check(), health.Leases(health.LeasesFile, subnet, time.Now)}
	for _, pressure := range append(health.Pressures(hostos.ReadPressure), disks.Check()) {
		checks = append(checks, health.Lasting(pressure, time.Now))
	}
	return append(checks, hostd.Checks()...), nil
}

// disks are the volumes that must have something free, by a kubelet's thresholds.
func (a *agent) disks() (*health.Disks, error) {
	home, err := tartHome(a.o, a.config)
	if err != nil {
		return nil, err
	}
	return health.NewDisks([]health.Volume{
		{Name: "the agent's state", Path: a.o.StateDir, Percent: health.NodePercent},
		{Name: "images and VMs", Path: home, Percent: health.ImagePercent},
	}, a.disk), nil
}

// disk reads the volume that path is on, or will be once it is there: the tool makes
// its directory with its first image.
func (a *agent) disk(ctx context.Context, path string) (hostos.Disk, error) {
	for {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
			break
		}
		path = filepath.Dir(path)
	}
	return hostos.ReadDisk(ctx, a.host, path)
}

// guestSubnet is not valid where the configuration names none.
func guestSubnet(text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	subnet, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, usage("mac.network.subnet: %w", err)
	}
	return subnet.Masked(), nil
}

// watchedEnds is a driver whose verdicts on ended machines are noted: a start that
// the session's keychain refused is a condition of the host.
type watchedEnds struct {
	vm.Driver
	keychain *health.Keychain
}

func (d watchedEnds) Classify(end vm.RunEnd) vm.Outcome {
	o := d.Driver.Classify(end)
	d.keychain.Note(o)
	return o
}
