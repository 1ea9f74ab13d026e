package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// macWithVolumes answers like a Mac on which the paths below large are another volume.
type macWithVolumes struct{ large string }

func (m macWithVolumes) Run(_ context.Context, name string, args ...string) (string, error) {
	switch name {
	case "sysctl":
		return "8 17179869184 boot-1\n", nil
	case "sw_vers":
		return "ProductName:\tmacOS\nProductVersion:\t26.0\nBuildVersion:\t25A1\n", nil
	case "ioreg":
		return `"IOPlatformUUID" = "0A1B"`, nil
	case "df":
		blocks := 1000
		if strings.HasPrefix(args[len(args)-1], m.large) {
			blocks = 5000
		}
		return fmt.Sprintf("Filesystem 1024-blocks Used Available Capacity\ndisk %d 0 %d 0%%\n", blocks, blocks), nil
	}
	return "text\n", nil
}

type probedDriver struct{ vm.Driver }

func (probedDriver) Probe(context.Context) (vm.Info, error) { return vm.Info{Name: "tart"}, nil }

// Guests' disks are where tart's home is, or will be, and not where the agent's state is.
func TestStorageIsThatOfTheGuestsVolume(t *testing.T) {
	large := t.TempDir()
	for name, c := range map[string]struct {
		home string
		want int64
	}{
		"on its own volume": {filepath.Join(large, "tart"), 5000 << 10},
		"beside the state":  {t.TempDir(), 1000 << 10},
	} {
		a := agent{o: options{StateDir: t.TempDir(), TartHome: c.home}, host: macWithVolumes{large}, driver: probedDriver{}}
		self, err := a.readSelf(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		capacity := self.Capacity()
		if got := capacity.StorageEphemeral().Value(); got != c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, c.want)
		}
	}
}
