package vendor_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/scaleway"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

const zone = "fr-par-1"

// vendor is a simulated vendor whose clock only the test moves.
type vendor struct {
	*sandbox.Vendor
	clock  *clocktesting.FakeClock
	url    string
	client *scaleway.Client
}

func start(t *testing.T, opts sandbox.Options) vendor {
	t.Helper()
	fake := clocktesting.NewFakeClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	opts.Clock = fake
	simulated := sandbox.New(opts)
	t.Cleanup(simulated.Close)
	server := httptest.NewServer(simulated)
	t.Cleanup(server.Close)
	v := vendor{Vendor: simulated, clock: fake, url: server.URL}
	v.client = v.dial(t, sandbox.DefaultSecretKey)
	return v
}

func (v vendor) dial(t *testing.T, secretKey string) *scaleway.Client {
	t.Helper()
	client, err := scaleway.New(scaleway.Options{
		AccessKey: sandbox.DefaultAccessKey, SecretKey: secretKey, ProjectID: sandbox.DefaultProjectID, APIURL: v.url,
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (v vendor) add(t *testing.T, name string) sandbox.Server {
	t.Helper()
	server, err := v.AddServer(context.Background(), sandbox.ServerSpec{Name: name, OS: "macos-tahoe-26.0"})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func (v vendor) arm(t *testing.T, fault sandbox.Fault) {
	t.Helper()
	if _, err := v.Arm(fault); err != nil {
		t.Fatal(err)
	}
}

func TestListsAreWholeAndOfOneProject(t *testing.T) {
	v := start(t, sandbox.Options{PageSize: 2})
	var want []string
	for i := range 205 { // three pages of 100
		want = append(want, v.add(t, fmt.Sprintf("tuist-pool-%d", i)).ID)
	}
	if _, err := v.AddServer(context.Background(), sandbox.ServerSpec{
		Name: "of another project", ProjectID: "5ca1e000-0000-4000-8000-0000000000cc",
	}); err != nil {
		t.Fatal(err)
	}
	servers, err := v.client.ListServers(context.Background(), zone)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, server := range servers {
		got = append(got, server.ID)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("%d servers, want %d", len(got), len(want))
	}
	other, err := v.client.ListServers(context.Background(), "fr-par-3")
	if err != nil || len(other) != 0 {
		t.Errorf("another zone: %d servers, %v", len(other), err)
	}
}

func TestAServerFromThePoolAndBack(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	if err := v.client.RenameServer(ctx, zone, id, "fleet-1"); err != nil {
		t.Fatal(err)
	}
	server, before, err := v.client.GetServer(ctx, zone, id)
	if err != nil || server.Name != "fleet-1" || server.OSFamily != "tahoe" || !server.Delivered || !before.Password.Present() || before.SSHUser != sandbox.Username {
		t.Fatalf("%+v with %v: %v", server, before, err)
	}
	image, err := v.client.FindOS(ctx, zone, "sequoia", server.Type)
	if err != nil || image.Name != "macos-sequoia-15.6" {
		t.Fatalf("image %+v: %v", image, err)
	}
	if err := v.client.ReinstallServer(ctx, zone, id, image.ID); err != nil {
		t.Fatal(err)
	}
	if err := v.client.ReinstallServer(ctx, zone, id, image.ID); !cloud.IsTransient(err) {
		t.Errorf("a second reinstall: %v", err)
	}
	v.arm(t, sandbox.Fault{Call: "UpdateServer", Error: "transient_state", Count: 1})
	if err := v.client.RenameServer(ctx, zone, id, "tuist-pool-"+id); !cloud.IsTransient(err) {
		t.Errorf("a refused rename: %v", err)
	}
	if err := v.client.RenameServer(ctx, zone, id, "tuist-pool-"+id); err != nil {
		t.Errorf("a rename while reinstalling: %v", err)
	}
	if server, _, err := v.client.GetServer(ctx, zone, id); err != nil || server.Status != cloud.StatusReinstalling {
		t.Errorf("%+v: %v", server, err)
	}
	v.clock.Step(time.Hour)
	server, after, err := v.client.GetServer(ctx, zone, id)
	if err != nil || server.Status != cloud.StatusReady || server.OSFamily != "sequoia" || server.Name != "tuist-pool-"+id {
		t.Errorf("%+v: %v", server, err)
	}
	if after.Password.Reveal() == before.Password.Reveal() {
		t.Error("the old password outlives the reinstall")
	}
}

func TestRequirement000_TheFloorAgainstTheSimulatedVendor(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	scheduled, err := v.client.DeleteServer(ctx, zone, id)
	if err != nil || !scheduled {
		t.Fatalf("below the floor: scheduled %v, %v", scheduled, err)
	}
	if server, _, err := v.client.GetServer(ctx, zone, id); err != nil || !server.DeletionScheduled {
		t.Errorf("%+v: %v", server, err)
	}
	old, err := v.AddServer(ctx, sandbox.ServerSpec{Name: "old", Age: 48 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if scheduled, err := v.client.DeleteServer(ctx, zone, old.ID); scheduled || err != nil {
		t.Errorf("above the floor: scheduled %v, %v", scheduled, err)
	}
	if _, _, err := v.client.GetServer(ctx, zone, old.ID); !cloud.IsForbidden(err) {
		t.Errorf("a deleted server: %v", err)
	}
}

func TestRequirement003_SealedAgainstTheSimulatedVendor(t *testing.T) {
	v := start(t, sandbox.Options{Knobs: sandbox.Knobs{Sealed: sandbox.SealWindow}})
	id := v.add(t, "tuist-pool-1").ID
	if err := v.client.ReinstallServer(context.Background(), zone, id, ""); err != nil {
		t.Fatal(err)
	}
	server, credentials, err := v.client.GetServer(context.Background(), zone, id)
	if err != nil || credentials.Password.Present() {
		t.Errorf("%+v: a password is there, %v", server, err)
	}
	v.clock.Step(24 * time.Hour)
	if _, credentials, err = v.client.GetServer(context.Background(), zone, id); err != nil || !credentials.Password.Present() {
		t.Errorf("no password after the window, %v", err)
	}
}

func TestTheVendorsRefusals(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	get := func(v vendor) error {
		_, _, err := v.client.GetServer(ctx, zone, id)
		return err
	}
	for name, row := range map[string]struct {
		fault sandbox.Fault
		want  cloud.Kind
	}{
		"dropped":          {sandbox.Fault{Drop: true, Count: 10}, cloud.KindUnavailable},
		"unavailable":      {sandbox.Fault{Status: http.StatusServiceUnavailable, Count: 1}, cloud.KindUnavailable},
		"after its effect": {sandbox.Fault{Status: http.StatusBadGateway, When: sandbox.AfterEffect, Count: 1}, cloud.KindUnavailable},
		"forbidden":        {sandbox.Fault{Error: "permissions_denied", Count: 1}, cloud.KindForbidden},
		"locked":           {sandbox.Fault{Error: "locked", Count: 1}, cloud.KindLocked},
		"empty":            {sandbox.Fault{Status: http.StatusOK, Count: 1}, cloud.KindUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			v.arm(t, row.fault)
			defer v.Clear("")
			if err := get(v); cloud.KindOf(err) != row.want {
				t.Errorf("got %v, want %s", err, row.want)
			}
		})
	}
	if err := get(v); err != nil {
		t.Errorf("without a fault: %v", err)
	}
	v.client = v.dial(t, "5ca1e000-0000-4000-8000-00000000ffff")
	if err := v.client.CheckAccess(ctx, zone); !cloud.IsUnauthorized(err) {
		t.Errorf("a wrong key: %v", err)
	}
	v.client = v.dial(t, sandbox.DefaultSecretKey)
	if err := v.client.CheckAccess(ctx, "pl-waw-9"); !cloud.IsUnknownZone(err) {
		t.Errorf("an unknown zone: %v", err)
	}
	if err := v.client.CheckAccess(ctx, zone); err != nil {
		t.Errorf("access: %v", err)
	}
}

func TestSSHKeysAreNeverDuplicated(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	const half = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtleWtleWtleWtleWtleWtleWtleWtleWtleWtleWtl"
	for _, key := range []string{half + " one@here", half + " two@there", half, half + "\n"} {
		if err := v.client.EnsureSSHKey(ctx, "fleet", key); err != nil {
			t.Fatal(err)
		}
	}
	created := 0
	for _, entry := range v.Journal(0) {
		if entry.Method == http.MethodPost {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d keys were created", created)
	}
}

// A retired key is taken away by its id, and the same key under another name stays.
func TestSSHKeysAreTakenAwayOneByOne(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{PageSize: 2})
	const half = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGtleWtleWtleWtleWtleWtleWtleWtleWtleWtleWtl"
	for _, name := range []string{"ada@example.com", "fleet", "another fleet"} {
		if err := v.client.EnsureSSHKey(ctx, name, half+" comment"); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := v.client.ListSSHKeys(ctx)
	if err != nil || len(keys) != 3 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		if key.Name != "fleet" {
			continue
		}
		if err := v.client.DeleteSSHKey(ctx, key.ID); err != nil {
			t.Error(err)
		}
		if err := v.client.DeleteSSHKey(ctx, key.ID); !cloud.IsNotFound(err) {
			t.Errorf("once more: %v", err)
		}
	}
	var left []string
	if keys, err = v.client.ListSSHKeys(ctx); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		left = append(left, key.Name)
		if key.PublicKey != half {
			t.Errorf("key %q", key.PublicKey)
		}
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"ada@example.com", "another fleet"}) {
		t.Errorf("left: %q", left)
	}
	v.SetRights(sandbox.DefaultSecretKey, sandbox.ReadOnly)
	if err := v.client.DeleteSSHKey(ctx, keys[0].ID); !cloud.IsForbidden(err) {
		t.Errorf("without the right: %v", err)
	}
}
