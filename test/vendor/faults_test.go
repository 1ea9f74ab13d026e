package vendor_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/scaleway"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

func (v vendor) turn(t *testing.T, change func(*sandbox.Knobs)) {
	t.Helper()
	if err := v.Turn(change); err != nil {
		t.Fatal(err)
	}
}

// In each mode a password is either the right one or none.
func TestRequirement003_EachSealedMode(t *testing.T) {
	ctx := context.Background()
	for name, row := range map[string]struct {
		mode       sandbox.SealedMode
		busy, idle bool // whether a password shows while the Mac is wiped, and long after
	}{
		"writes":        {sandbox.SealWrites, true, true},
		"window":        {sandbox.SealWindow, false, true},
		"empty on read": {sandbox.SealReads, false, false},
		"clear":         {sandbox.SealNever, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			v := start(t, sandbox.Options{})
			v.turn(t, func(k *sandbox.Knobs) { k.Sealed = row.mode })
			id := v.add(t, "tuist-pool-1").ID
			for _, write := range []error{
				v.client.RenameServer(ctx, zone, id, "fleet-1"), v.client.ReinstallServer(ctx, zone, id, ""),
			} {
				if write != nil {
					t.Fatal(write)
				}
			}
			_, credentials, err := v.client.GetServer(ctx, zone, id)
			if err != nil || credentials.Password.Present() != row.busy {
				t.Errorf("while wiped: a password %v, %v", credentials.Password.Present(), err)
			}
			v.clock.Step(24 * time.Hour)
			_, credentials, err = v.client.GetServer(ctx, zone, id)
			if err != nil || credentials.Password.Present() != row.idle {
				t.Errorf("long after: a password %v, %v", credentials.Password.Present(), err)
			}
			if password := credentials.Password; password.Present() && len(password.Reveal()) != 12 {
				t.Errorf("a password of %d characters", len(password.Reveal()))
			}
		})
	}
}

func TestGarbageOfTheSimulatedVendor(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	for _, garbage := range []string{
		sandbox.GarbageHTML, sandbox.GarbageEmpty, sandbox.GarbageTruncated, sandbox.GarbageWrongID, sandbox.GarbageWrongType, sandbox.GarbageHuge,
	} {
		t.Run(garbage, func(t *testing.T) {
			v.arm(t, sandbox.Fault{Garbage: garbage})
			defer v.Clear("")
			_, _, get := v.client.GetServer(ctx, zone, id)
			for call, err := range map[string]error{
				"get": get, "rename": v.client.RenameServer(ctx, zone, id, "fleet-1"), "reboot": v.client.RebootServer(ctx, zone, id),
			} {
				if !cloud.IsUnavailable(err) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if servers, err := v.client.ListServers(ctx, zone); garbage != sandbox.GarbageWrongID && !cloud.IsUnavailable(err) {
				t.Errorf("list: %d servers, %v", len(servers), err)
			}
		})
	}
	if _, _, err := v.client.GetServer(ctx, zone, id); err != nil {
		t.Errorf("without garbage: %v", err)
	}
}

func TestSilenceEndsWithTheCallersDeadline(t *testing.T) {
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	v.arm(t, sandbox.Fault{Silence: true})
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := v.client.RenameServer(ctx, zone, id, "fleet-1"); !cloud.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

// A bare 429 holds all further calls, and they say so without asking the vendor.
func TestABareThrottlingHoldsAllCalls(t *testing.T) {
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	v.arm(t, sandbox.Fault{Status: http.StatusTooManyRequests, Count: 1})
	if err := v.client.RebootServer(context.Background(), zone, id); !cloud.IsThrottled(err) {
		t.Fatalf("got %v", err)
	}
	asked := len(v.Journal(0))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := v.client.ListServers(ctx, zone); !cloud.IsThrottled(err) {
		t.Errorf("got %v", err)
	}
	if now := len(v.Journal(0)); now != asked {
		t.Errorf("%d calls within the pause", now-asked)
	}
}

func TestSmallPagesAreAllRead(t *testing.T) {
	v := start(t, sandbox.Options{})
	v.turn(t, func(k *sandbox.Knobs) { k.MaxPageSize = 2 })
	for _, name := range []string{"tuist-pool-1", "tuist-pool-2", "tuist-pool-3", "tuist-pool-4", "tuist-pool-5"} {
		v.add(t, name)
	}
	if servers, err := v.client.ListServers(context.Background(), zone); err != nil || len(servers) != 5 {
		t.Errorf("%d servers, %v", len(servers), err)
	}
	// The first image of its family is the fourth of all.
	if image, err := v.client.FindOS(context.Background(), zone, "sequoia", ""); err != nil || image.Name != "macos-sequoia-15.6" {
		t.Errorf("an image on a later page: %+v, %v", image, err)
	}
}

func TestLostRightsAreNoLostServers(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	v.SetRights(sandbox.DefaultSecretKey, sandbox.NoRights)
	if _, err := v.client.ListServers(ctx, zone); !cloud.IsForbidden(err) {
		t.Errorf("list: %v", err)
	}
	v.SetRights(sandbox.DefaultSecretKey, sandbox.EmptyLists)
	if servers, err := v.client.ListServers(ctx, zone); err != nil || len(servers) != 0 {
		t.Errorf("a list that hides all: %d servers, %v", len(servers), err)
	}
	if _, _, err := v.client.GetServer(ctx, zone, id); !cloud.IsForbidden(err) {
		t.Errorf("get: %v", err)
	}
	v.SetRights(sandbox.DefaultSecretKey, sandbox.FullRights)
	if servers, err := v.client.ListServers(ctx, zone); err != nil || len(servers) != 1 {
		t.Errorf("rights that are back: %d servers, %v", len(servers), err)
	}
}

func TestARotationEndsARejection(t *testing.T) {
	const rotated = "5ca1e000-0000-4000-8000-00000000abcd"
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	dir := t.TempDir()
	write := func(name, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(scaleway.AccessKeyName, sandbox.DefaultAccessKey)
	write(scaleway.SecretKeyName, sandbox.DefaultSecretKey)
	write(scaleway.ProjectIDName, sandbox.DefaultProjectID)
	write(scaleway.APIURLName, v.url)
	client, err := scaleway.New(scaleway.Options{Source: scaleway.Directory(dir), Clock: v.clock})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.CheckAccess(ctx, zone); err != nil {
		t.Fatal(err)
	}
	v.SetSecretKeys(rotated)
	if err := client.CheckAccess(ctx, zone); !cloud.IsUnauthorized(err) {
		t.Errorf("with the old key: %v", err)
	}
	write(scaleway.SecretKeyName, rotated)
	v.clock.Step(10 * time.Second)
	if err := client.CheckAccess(ctx, zone); err != nil {
		t.Errorf("with the new key: %v", err)
	}
}
