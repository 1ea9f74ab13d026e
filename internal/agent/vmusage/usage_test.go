package vmusage

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// host prints what its commands would, and counts them.
type host struct {
	ps, lsof string
	ran      map[string]int
}

func (h *host) Run(_ context.Context, name string, _ ...string) (string, error) {
	h.ran[name]++
	switch name {
	case "ps":
		return h.ps, nil
	case "lsof":
		return h.lsof, errors.New("not allowed to look at all of them")
	case "vm_stat":
		return "(page size of 4096 bytes)\nPages active: 10.\n", nil
	}
	return "", errors.New("no such command")
}

// Whoever waits for another's reading waits no longer than its own caller.
func TestAReadingIsNotWaitedForInVain(t *testing.T) {
	h := &host{ran: map[string]int{}, ps: "1 0 1 0:01.00 x\n"}
	reads, goOn := make(chan context.Context), make(chan struct{})
	r := NewReader(h, func(ctx context.Context) []VM { reads <- ctx; <-goOn; return nil }, clocktesting.NewFakeClock(time.Now()))
	type key struct{}
	first := make(chan error, 1)
	go func() {
		_, err := r.Read(context.WithValue(context.Background(), key{}, "the caller's"))
		first <- err
	}()
	if ctx := <-reads; ctx.Value(key{}) != "the caller's" {
		t.Error("VMs are listed with another context than the caller's")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("err %v", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

const xpc = "/System/XPC Services/" + virtualization

func TestRead(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	h := &host{ran: map[string]int{}, lsof: "p30\nn/vms/a/disk.img\np31\nn/vms/ab/disk.img\nn/dev/null\n"}
	vms := []VM{{Name: "a", Shim: 10, Dir: "/vms/a"}, {Name: "b", Shim: 20, Dir: "/vms/ab"}}
	r := NewReader(h, func(context.Context) []VM { return vms }, clock)
	h.ps = strings.Join([]string{
		"11 10 100 0:01.00 tart", "10 1 10 0:01.00 shim", "30 1 5000 1:00.00 " + xpc, "12 11 1 0:01.00 child of tart",
		"20 1 10 0:00.00 shim", "31 1 9000 2:00.00 " + xpc, "99 1 1 1:00.00 other",
	}, "\n") + "\n"
	got, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := got.VMs["a"]; f.CPU != 63*time.Second || f.MemoryBytes != 5111<<10 || f.Cores >= 0 {
		t.Errorf("%+v", f)
	}
	if f := got.VMs["b"]; f.CPU != 2*time.Minute || f.MemoryBytes != 9010<<10 {
		t.Errorf("%+v", f)
	}
	if got.Host.CPU != 243*time.Second || got.Host.MemoryBytes != 40960 || got.Host.Cores >= 0 {
		t.Errorf("%+v", got.Host)
	}

	// It is read at most every ten seconds, and whose a process is only once.
	clock.Step(keep - time.Second)
	if _, err := r.Read(t.Context()); err != nil || h.ran["ps"] != 1 {
		t.Errorf("read %d times, %v", h.ran["ps"], err)
	}
	// A process that is gone keeps its time, also where its number is taken again.
	clock.Step(time.Second)
	h.ps = "10 1 10 0:01.00 shim\n30 1 5000 1:05.00 " + xpc + "\n99 1 1 0:01.00 another\n"
	got, err = r.Read(t.Context())
	if err != nil || h.ran["ps"] != 2 || h.ran["lsof"] != 1 {
		t.Errorf("ran %v, %v", h.ran, err)
	}
	if got.Host.CPU != 249*time.Second {
		t.Errorf("host has used %s", got.Host.CPU)
	}
	if got.Host.Cores != 0.6 {
		t.Errorf("host uses %f cores", got.Host.Cores)
	}
	if f := got.VMs["a"]; f.CPU != 68*time.Second || f.MemoryBytes != 5010<<10 || f.Cores != 0.5 {
		t.Errorf("%+v", f)
	}

	// What runs after a restart is another VM, and has used nothing yet.
	clock.Step(keep)
	vms[0] = VM{Name: "a", Shim: 11, Dir: "/vms/a2"}
	h.ps = "11 1 10 0:01.00 shim\n"
	if got, err = r.Read(t.Context()); err != nil || got.VMs["a"].CPU != time.Second {
		t.Errorf("%+v, %v", got.VMs["a"], err)
	}
}

// Where nobody tells whose the guest's process is, the only one is the only VM's.
func TestOneGuestNeedsNoTelling(t *testing.T) {
	h := &host{ran: map[string]int{}, ps: "30 1 5000 1:00.00 " + xpc + "\n"}
	vms := []VM{{Name: "a", Dir: "/vms/a"}}
	r := NewReader(h, func(context.Context) []VM { return vms }, clocktesting.NewFakeClock(time.Now()))
	if got, err := r.Read(t.Context()); err != nil || got.VMs["a"].CPU != time.Minute {
		t.Errorf("%+v, %v", got, err)
	}
	vms = append(vms, VM{Name: "b", Dir: "/vms/b"})
	r = NewReader(h, func(context.Context) []VM { return vms }, clocktesting.NewFakeClock(time.Now()))
	if got, err := r.Read(t.Context()); err != nil || got.VMs["a"].CPU+got.VMs["b"].CPU != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
