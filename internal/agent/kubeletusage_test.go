package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/pod"
	"github.com/macfleet/macfleet/internal/agent/vmusage"
)

// hostCommands print what a Mac's would.
type hostCommands map[string]string

func (h hostCommands) Run(_ context.Context, name string, _ ...string) (string, error) {
	if text, found := h[name]; found {
		return text, nil
	}
	return "", errors.New("no such command")
}

func TestUsageOfPods(t *testing.T) {
	const guest = "com.apple.Virtualization.VirtualMachine"
	runner := hostCommands{
		"ps": "30 1 1024 0:07.00 " + guest + "\n40 1 2048 0:09.00 " + guest + "\n", "vm_stat": "(page size of 1 bytes)\nPages active: 5.\n",
		"lsof":       "p30\nn/vms/tk-uid-1-0/disk.img\np40\nn/vms/another/disk.img\n",
		"notifyutil": "com.apple.system.thermalpressurelevel 1",
	}
	pods := knownPods{}
	pods.guests = []pod.Holder{{Pod: pods.Pods()[0], VMDir: "/vms/tk-uid-1-0", LogDir: t.TempDir()}}
	u := &usageOf{
		pods: pods, runner: runner,
		pressure: func() (hostos.Pressure, error) { return hostos.Pressure{Memory: true}, nil },
		disk:     func(context.Context) (hostos.Disk, error) { return hostos.Disk{TotalBytes: 10, FreeBytes: 4}, nil },
	}
	u.reader = vmusage.NewReader(runner, u.vms, clock.RealClock{})
	got, err := u.Read(t.Context())
	if err != nil || len(got.Pods) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	// It is the container that runs.
	p := got.Pods[0]
	if p.Container != "side" || p.CPU != 7*time.Second || p.MemoryBytes != 1<<20 || got.Filesystem.Free != 4 || got.Node.MemoryBytes != 5 {
		t.Errorf("%+v", got)
	}
	values := map[string]float64{}
	for _, g := range u.Host(t.Context()) {
		values[g.Name] = g.Value
	}
	for name, want := range map[string]float64{"disk_total_bytes": 10, "disk_free_bytes": 4, "memory_pressure": 1, "thermal_pressure_level": 1} {
		if values["tart_kubelet_host_"+name] != want {
			t.Errorf("%s is %v, want %v", name, values["tart_kubelet_host_"+name], want)
		}
	}
}
