package cloud_test

import (
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
)

// refusingWorld is a vendor with one server, whose refused writes are recorded.
func refusingWorld() (*cloudtest.Cloud, *cloud.Rights, cloud.Cloud, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC))
	vendor, rights := &cloudtest.Cloud{}, &cloud.Rights{Clock: clock}
	vendor.Set(cloud.Server{ID: "s-1", Zone: "z", Status: cloud.StatusReady}, "")
	return vendor, rights, rights.RecordRefusals(vendor), clock
}

func refuse(vendor *cloudtest.Cloud, kind cloud.Kind, names ...string) {
	vendor.Fault = func(c cloudtest.Call) (before, after error) {
		for _, name := range names {
			if c.Name == name {
				return &cloud.Error{Kind: kind, Doing: "rename server z/s-1", Message: "permission denied", RequestID: "r"}, nil
			}
		}
		return nil, nil
	}
}

func calls(rights *cloud.Rights) (names []string) {
	for _, r := range rights.Refused() {
		names = append(names, r.Call)
	}
	return names
}

func TestRefusedWritesAreKnownUntilTheyWork(t *testing.T) {
	vendor, rights, c, clock := refusingWorld()
	refuse(vendor, cloud.KindForbidden, "RenameServer", "EnsureSSHKey")
	began := clock.Now()
	for range 2 {
		_ = c.RenameServer(t.Context(), "z", "s-1", "n")
		_ = c.EnsureSSHKey(t.Context(), "k", "ssh-ed25519 AAAA")
		clock.Step(time.Minute)
	}
	got := rights.Refused()
	if len(got) != 2 || got[1].Call != "RenameServer" || !got[1].Since.Equal(began) || got[1].Said != "rename server z/s-1: permission denied" {
		t.Fatalf("refused %+v", got)
	}
	refuse(vendor, cloud.KindForbidden, "EnsureSSHKey")
	if err := c.RenameServer(t.Context(), "z", "s-1", "n"); err != nil {
		t.Fatal(err)
	}
	if got := calls(rights); len(got) != 1 || got[0] != "EnsureSSHKey" {
		t.Errorf("after a rename that worked: %v", got)
	}
	clock.Step(2 * time.Hour)
	if got := calls(rights); len(got) != 0 {
		t.Errorf("long after anybody tried: %v", got)
	}
}

func TestWhatSaysNothingAboutRights(t *testing.T) {
	for name, c := range map[string]struct {
		kind cloud.Kind
		gone bool
	}{
		"the server is gone":  {cloud.KindForbidden, true},
		"the server is busy":  {cloud.KindTransient, false},
		"the vendor is away":  {cloud.KindUnavailable, false},
		"an unknown password": {cloud.KindUnauthorized, false},
	} {
		vendor, rights, recorded, _ := refusingWorld()
		if c.gone {
			vendor.Remove("s-1")
		}
		refuse(vendor, c.kind, "RebootServer", "RenameServer", "ReinstallServer", "DeleteServer")
		_, deleted := recorded.DeleteServer(t.Context(), "z", "s-1")
		err := errors.Join(deleted, recorded.RebootServer(t.Context(), "z", "s-1"), recorded.ReinstallServer(t.Context(), "z", "s-1", ""), recorded.RenameServer(t.Context(), "z", "s-1", "n"))
		if err == nil || len(rights.Refused()) != 0 {
			t.Errorf("%s: %v, refused %+v", name, err, rights.Refused())
		}
	}
}

// Every write tells of the right that it lacks.
func TestEveryRefusedWriteIsRecorded(t *testing.T) {
	for name, write := range map[string]func(cloud.Cloud) error{
		"RenameServer":    func(c cloud.Cloud) error { return c.RenameServer(t.Context(), "z", "s-1", "n") },
		"ReinstallServer": func(c cloud.Cloud) error { return c.ReinstallServer(t.Context(), "z", "s-1", "") },
		"RebootServer":    func(c cloud.Cloud) error { return c.RebootServer(t.Context(), "z", "s-1") },
		"DeleteServer":    func(c cloud.Cloud) error { _, err := c.DeleteServer(t.Context(), "z", "s-1"); return err },
		"CreateServer":    func(c cloud.Cloud) error { _, err := c.CreateServer(t.Context(), "z", cloud.ServerOrder{}); return err },
		"EnsureSSHKey":    func(c cloud.Cloud) error { return c.EnsureSSHKey(t.Context(), "k", "ssh-ed25519 A") },
		"DeleteSSHKey":    func(c cloud.Cloud) error { return c.DeleteSSHKey(t.Context(), "k") },
	} {
		vendor, rights, c, _ := refusingWorld()
		refuse(vendor, cloud.KindForbidden, name)
		if err := write(c); !cloud.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
		if got := calls(rights); len(got) != 1 || got[0] != name {
			t.Errorf("%s is refused, and told of are %v", name, got)
		}
	}
}
