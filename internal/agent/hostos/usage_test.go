package hostos

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// printing is a Runner that prints what a command of the name would.
type printing map[string]string

func (p printing) Run(_ context.Context, name string, _ ...string) (string, error) {
	if text, found := p[name]; found {
		return text, nil
	}
	return "", errors.New("no such command")
}

func TestReadProcesses(t *testing.T) {
	const out = `    1     0  12345   1234:05.50 /sbin/launchd
  501     1    100   0:00.01 /System/Library/Frameworks/Virtualization.framework/Versions/A/XPC Services/com.apple.Virtualization.VirtualMachine.xpc/Contents/MacOS/com.apple.Virtualization.VirtualMachine
   77    76      0 2-03:04:05 tart
`
	got, err := ReadProcesses(t.Context(), printing{"ps": out})
	if err != nil {
		t.Fatal(err)
	}
	want := []Process{
		{PID: 1, Parent: 0, ResidentBytes: 12345 << 10, CPU: 1234*time.Minute + 5500*time.Millisecond, Name: "/sbin/launchd"},
		{PID: 501, Parent: 1, ResidentBytes: 100 << 10, CPU: 10 * time.Millisecond, Name: "/System/Library/Frameworks/Virtualization.framework/Versions/A/XPC Services/com.apple.Virtualization.VirtualMachine.xpc/Contents/MacOS/com.apple.Virtualization.VirtualMachine"},
		{PID: 77, Parent: 76, CPU: 51*time.Hour + 4*time.Minute + 5*time.Second, Name: "tart"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"1 2 3\n", "x 1 1 0:00 a\n", "1 1 1 0:x a\n", "1 1 1 x-00:00:00 a\n"} {
		if _, err := ReadProcesses(t.Context(), printing{"ps": bad}); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestReadProcessesOfThisHost(t *testing.T) {
	all, err := ReadProcesses(t.Context(), Commands{})
	if err != nil || len(all) < 2 {
		t.Errorf("%d processes, %v", len(all), err)
	}
}

func TestReadMemoryInUse(t *testing.T) {
	const vmStat = `Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                6000.
Pages active:                               100.
Pages inactive:                             200.
Pages wired down:                            10.
Pages stored in compressor:                5000.
Pages occupied by compressor:                 1.
`
	if got, err := ReadMemoryInUse(t.Context(), printing{"vm_stat": vmStat}); err != nil || got != 111*16384 {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := memoryOfProc("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable: 60 kB\n"); err != nil || got != 40<<10 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := memoryOfProc("nothing"); err == nil {
		t.Error("nothing was read")
	}
	if _, err := memoryOfVMStat("nothing"); err == nil {
		t.Error("nothing was read")
	}
}

func TestReadThermalPressure(t *testing.T) {
	if got, err := ReadThermalPressure(t.Context(), printing{"notifyutil": "com.apple.system.thermalpressurelevel 2\n"}); err != nil || got != 2 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := ReadThermalPressure(t.Context(), printing{"notifyutil": "failed\n"}); err == nil {
		t.Error("a failure was read")
	}
}
