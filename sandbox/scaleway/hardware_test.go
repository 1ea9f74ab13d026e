package scaleway_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	iam "github.com/scaleway/scaleway-sdk-go/api/iam/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// macs is hardware that records what it is told. With a gate, an installation
// waits for it.
type macs struct {
	gate chan struct{}
	told chan string

	mu       sync.Mutex
	fail     error
	installs []scaleway.Install
}

func newMacs() *macs { return &macs{told: make(chan string, 100)} }

// newQuietMacs are for tests that tell them more than anybody reads.
func newQuietMacs() *macs { return &macs{told: make(chan string, 1000)} }

func (m *macs) Erase(_ context.Context, id string) { m.told <- "erase " + id }

func (m *macs) Install(ctx context.Context, install scaleway.Install) error {
	m.told <- "install " + install.ServerID
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gate != nil {
		select {
		case <-m.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.installs = append(m.installs, install)
	return m.fail
}

func (m *macs) Reboot(_ context.Context, id string, keys []string) {
	m.told <- fmt.Sprintf("reboot %s %d keys, given %v", id, len(keys), keys != nil)
}

func (m *macs) Remove(_ context.Context, id string) { m.told <- "remove " + id }

func (m *macs) last() scaleway.Install {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.installs[len(m.installs)-1]
}

// expect waits for the next thing that the hardware is told.
func (m *macs) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-m.told:
		if got != want {
			t.Fatalf("told %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("never told %q", want)
	}
}

func TestHardwareFollowsTheServer(t *testing.T) {
	hardware := newMacs()
	w := newWorld(t, scaleway.Options{Hardware: hardware, Floor: scaleway.NoFloor})
	text := newKey(t)
	for name, disabled := range map[string]bool{"fleet": false, "fleet again": false, "old": true} {
		key, err := w.iam.CreateSSHKey(&iam.CreateSSHKeyRequest{Name: name, PublicKey: text})
		must(t, err)
		if disabled {
			_, err = w.iam.UpdateSSHKey(&iam.UpdateSSHKeyRequest{SSHKeyID: key.ID, Disabled: scw.BoolPtr(true)})
			must(t, err)
		}
	}
	s := w.create("mac")
	w.settle()
	w.clock.Step(127 * time.Second)
	hardware.expect(t, "install "+s.ID)
	w.settle()
	ready := w.expect(s.ID, applesilicon.ServerStatusReady)
	install := hardware.last()
	if diff := cmp.Diff([]string{text}, install.AuthorizedKeys); diff != "" {
		t.Error(diff)
	}
	if install.Password != ready.SudoPassword || install.Username != "m1" || install.IP.String() != ready.IP.String() ||
		install.OS.Version != "15.6.1" || install.Type.MemoryBytes != 16_000_000_000 || install.Name != "mac" {
		t.Errorf("installed %+v", install)
	}

	must(t, w.reboot(s.ID))
	hardware.expect(t, fmt.Sprintf("reboot %s 0 keys, given false", s.ID))
	w.clock.Step(120 * time.Second)
	w.settle()
	w.expect(s.ID, applesilicon.ServerStatusReady)

	must(t, w.reinstall(s.ID))
	hardware.expect(t, "erase "+s.ID)
	w.settle()
	w.expect(s.ID, applesilicon.ServerStatusReinstalling)
	w.clock.Step(17 * time.Minute)
	hardware.expect(t, "install "+s.ID)
	w.settle()
	ready = w.expect(s.ID, applesilicon.ServerStatusReady)
	if again := hardware.last(); again.Password == install.Password || again.Password != ready.SudoPassword {
		t.Error("the second installation has not the new password")
	}
	if view, _ := w.Server(s.ID); view.Installs != 2 {
		t.Errorf("counted %d installations, want 2", view.Installs)
	}
	must(t, w.delete(s.ID))
	hardware.expect(t, "remove "+s.ID)
}

func TestReadyWaitsForTheHardware(t *testing.T) {
	hardware := newMacs()
	hardware.gate = make(chan struct{})
	w := newWorld(t, scaleway.Options{Hardware: hardware})
	s := w.create("mac")
	w.clock.Step(127 * time.Second)
	hardware.expect(t, "install "+s.ID)
	w.expect(s.ID, applesilicon.ServerStatusStarting)
	w.clock.Step(time.Minute)
	w.expect(s.ID, applesilicon.ServerStatusStarting)
	close(hardware.gate)
	w.settle()
	if ready := w.expect(s.ID, applesilicon.ServerStatusReady); !ready.UpdatedAt.Equal(startOfTime.Add(187 * time.Second)) {
		t.Errorf("ready since %v, before its hardware", ready.UpdatedAt)
	}
}

func TestFailedInstallationIsAnError(t *testing.T) {
	hardware := newMacs()
	w := newWorld(t, scaleway.Options{Hardware: hardware})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	hardware.fail = errors.New("no disk")
	must(t, w.reinstall(s.ID))
	w.clock.Step(17 * time.Minute)
	w.settle()
	failed := w.expect(s.ID, applesilicon.ServerStatusError)
	if failed.SudoPassword != s.Password {
		t.Error("a failed installation changed the password")
	}
	hardware.mu.Lock()
	hardware.fail = nil
	hardware.mu.Unlock()
	must(t, w.reinstall(s.ID))
	w.clock.Step(17 * time.Minute)
	w.settle()
	w.expect(s.ID, applesilicon.ServerStatusReady)
	if _, err := w.AddServer(t.Context(), scaleway.ServerSpec{Name: "fine"}); err != nil {
		t.Error(err)
	}
}

func TestPoolServerWithoutHardwareIsNotAdded(t *testing.T) {
	hardware := newMacs()
	hardware.fail = errors.New("no such address")
	released := 0
	w := newWorld(t, scaleway.Options{Hardware: hardware, ReleaseIP: func(string, netip.Addr) { released++ }})
	if _, err := w.AddServer(t.Context(), scaleway.ServerSpec{Name: "mac"}); !errors.Is(err, hardware.fail) {
		t.Errorf("got %v", err)
	}
	if len(w.Servers()) != 0 {
		t.Error("a server without hardware was added")
	}
	if released != 1 {
		t.Errorf("its address was released %d times", released)
	}
}

func TestKeysFromBeforeTheSandbox(t *testing.T) {
	hardware := newMacs()
	w := newWorld(t, scaleway.Options{Hardware: hardware})
	text := newKey(t)
	must(t, w.AddSSHKey("fleet", text+" comment"))
	if err := w.AddSSHKey("broken", "ssh-ed25519 ?"); err == nil {
		t.Error("added a broken key")
	}
	w.pool(scaleway.ServerSpec{Name: "mac"})
	if diff := cmp.Diff([]string{text}, hardware.last().AuthorizedKeys); diff != "" {
		t.Error(diff)
	}
}

func TestKeysOnReboot(t *testing.T) {
	hardware := newMacs()
	w := newWorld(t, scaleway.Options{Hardware: hardware, KeysOnReboot: true})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	hardware.expect(t, "install "+s.ID)
	must(t, w.reboot(s.ID))
	hardware.expect(t, fmt.Sprintf("reboot %s 0 keys, given true", s.ID))
	w.clock.Step(time.Hour)
	_, err := w.iam.CreateSSHKey(&iam.CreateSSHKeyRequest{Name: "late", PublicKey: newKey(t)})
	must(t, err)
	w.settle()
	must(t, w.reboot(s.ID))
	hardware.expect(t, fmt.Sprintf("reboot %s 1 keys, given true", s.ID))
}

func TestDeletionDuringReinstall(t *testing.T) {
	hardware := newMacs()
	var released []string
	w := newWorld(t, scaleway.Options{
		Hardware: hardware, Floor: scaleway.NoFloor,
		ReleaseIP: func(id string, ip netip.Addr) { released = append(released, id+" "+ip.String()) },
	})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	must(t, w.reinstall(s.ID))
	must(t, w.delete(s.ID))
	w.clock.Step(time.Hour)
	w.settle()
	for _, want := range []string{"install ", "erase ", "remove "} {
		hardware.expect(t, want+s.ID)
	}
	if diff := cmp.Diff([]string{s.ID + " " + s.IP.String()}, released); diff != "" {
		t.Error(diff)
	}
	if len(hardware.told) != 0 {
		t.Errorf("told %q after its end", <-hardware.told)
	}
}

func TestAddressesComeFromTheCaller(t *testing.T) {
	next := netip.MustParseAddr("127.7.0.1")
	w := newWorld(t, scaleway.Options{AllocateIP: func(string) (netip.Addr, error) {
		if next.As4()[3] > 2 {
			return netip.Addr{}, errors.New("out of addresses")
		}
		given := next
		next = next.Next()
		return given, nil
	}})
	if s := w.create("one"); s.IP.String() != "127.7.0.1" {
		t.Errorf("address %v", s.IP)
	}
	if s := w.pool(scaleway.ServerSpec{Name: "two"}); s.IP.String() != "127.7.0.2" {
		t.Errorf("address %v", s.IP)
	}
	_, err := w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: "three", Type: "M2-L"})
	if failed := as[*scw.ResponseError](t, err); failed.StatusCode != 500 {
		t.Errorf("status %d", failed.StatusCode)
	}
}

// On a real clock too, a Mac boots without anybody asking.
func TestHardwareNeedsNoPolling(t *testing.T) {
	hardware := newMacs()
	w := newWorld(t, scaleway.Options{Hardware: hardware, Clock: clock.RealClock{}, TimeScale: 10_000})
	s := w.create("mac")
	hardware.expect(t, "install "+s.ID)
	w.settle()
	must(t, w.reinstall(s.ID))
	hardware.expect(t, "erase "+s.ID)
	hardware.expect(t, "install "+s.ID)
	w.settle()
	w.expect(s.ID, applesilicon.ServerStatusReady)
}

func TestCloseEndsHardwareWork(t *testing.T) {
	hardware := newMacs()
	hardware.gate = make(chan struct{}) // never opens
	w := newWorld(t, scaleway.Options{Hardware: hardware})
	s := w.create("mac")
	w.clock.Step(127 * time.Second)
	hardware.expect(t, "install "+s.ID)
	w.Close()
}
