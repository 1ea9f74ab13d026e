package vendor_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

func TestAnOrderIsDeliveredUnderItsName(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	types, err := v.client.ServerTypes(ctx, zone)
	if err != nil || !slices.ContainsFunc(types, func(one cloud.ServerType) bool {
		return one.Name == "M2-L" && one.Chip != "" && one.MemoryBytes > 1<<30 && one.DiskBytes > 1<<30
	}) {
		t.Fatalf("types %+v, %v", types, err)
	}
	image, err := v.client.FindOS(ctx, zone, "tahoe", "M2-L")
	if err != nil {
		t.Fatal(err)
	}
	id, err := v.client.CreateServer(ctx, zone, cloud.ServerOrder{Name: "order-m-1", Type: "M2-L", OSID: image.ID})
	if err != nil {
		t.Fatal(err)
	}
	server, credentials, err := v.client.GetServer(ctx, zone, id)
	if err != nil || server.Name != "order-m-1" || server.Status != cloud.StatusStarting || server.Delivered || server.OSFamily != "tahoe" {
		t.Errorf("ordered: %+v, %v", server, err)
	}
	v.clock.Step(24 * time.Hour)
	server, credentials, err = v.client.GetServer(ctx, zone, id)
	if err != nil || server.Status != cloud.StatusReady || !server.Delivered || !credentials.Password.Present() {
		t.Errorf("delivered: %+v, %v", server, err)
	}
	if _, err := v.client.CreateServer(ctx, zone, cloud.ServerOrder{Name: "order-m-2", Type: "M2-L", OSID: "99999999-9999-4999-8999-999999999999"}); !cloud.IsInvalid(err) && !cloud.IsNotFound(err) {
		t.Errorf("an unknown image: %v", err)
	}
	if _, err := v.client.CreateServer(ctx, zone, cloud.ServerOrder{Name: "order-m-2", Type: "M9-X"}); !cloud.IsInvalid(err) && !cloud.IsNotFound(err) {
		t.Errorf("an unknown type: %v", err)
	}
}

func TestAnOrderThatCannotBeServed(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	order := func() error {
		_, err := v.client.CreateServer(ctx, zone, cloud.ServerOrder{Name: "order-m-1", Type: "M2-L"})
		return err
	}
	v.SetStock("M2-L", sandbox.NoStock)
	if err := order(); cloud.KindOf(err) != cloud.KindOutOfStock {
		t.Errorf("without stock: %v", err)
	}
	v.SetStock("M2-L", "high_stock")
	v.SetQuota("M2-L", 1)
	if err := order(); err != nil {
		t.Errorf("within the quota: %v", err)
	}
	if err := order(); cloud.KindOf(err) != cloud.KindQuota {
		t.Errorf("beyond the quota: %v", err)
	}
}

// The answer to an order can be lost after its effect: the name is what finds it.
func TestALostOrderIsFoundByItsName(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	v.arm(t, sandbox.Fault{Call: "CreateServer", Status: http.StatusBadGateway, When: sandbox.AfterEffect, Count: 1})
	if _, err := v.client.CreateServer(ctx, zone, cloud.ServerOrder{Name: "order-m-1", Type: "M2-L"}); !cloud.IsUnavailable(err) {
		t.Fatalf("got %v", err)
	}
	servers, err := v.client.ListServers(ctx, zone)
	if err != nil || len(servers) != 1 || servers[0].Name != "order-m-1" {
		t.Errorf("%+v, %v", servers, err)
	}
}

func TestRequirement003_RebootAgainstTheSimulatedVendor(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	if err := v.client.RebootServer(ctx, zone, id); err != nil {
		t.Fatal(err)
	}
	if server, _, err := v.client.GetServer(ctx, zone, id); err != nil || server.Status != cloud.StatusRebooting {
		t.Errorf("%+v, %v", server, err)
	}
	if err := v.client.RebootServer(ctx, zone, id); !cloud.IsTransient(err) {
		t.Errorf("a reboot of a rebooting Mac: %v", err)
	}
	v.clock.Step(time.Hour)
	v.Remove(id)
	if err := v.client.RebootServer(ctx, zone, id); !cloud.IsForbidden(err) {
		t.Errorf("a reboot of a Mac that is gone: %v", err)
	}
	v.turn(t, func(k *sandbox.Knobs) { k.GoneAs = http.StatusNotFound })
	if err := v.client.RebootServer(ctx, zone, id); !cloud.IsNotFound(err) {
		t.Errorf("a reboot of a Mac that is gone, as 404: %v", err)
	}
}

func TestDiagnosticsOfTheSimulatedVendor(t *testing.T) {
	ctx := context.Background()
	v := start(t, sandbox.Options{})
	id := v.add(t, "tuist-pool-1").ID
	look := func() (cloud.Diagnostic, error) {
		diagnostic, err := v.client.StartDiagnostic(ctx, zone, id)
		if err != nil {
			return cloud.Diagnostic{}, err
		}
		if first, err := v.client.GetDiagnostic(ctx, zone, diagnostic); err != nil || first.Done {
			return first, errors.Join(err, errors.New("done at once"))
		}
		v.clock.Step(10 * time.Minute)
		return v.client.GetDiagnostic(ctx, zone, diagnostic)
	}
	if got, err := look(); err != nil || !got.Done || !got.Healthy || len(got.Advice) != 0 {
		t.Errorf("a Mac in order: %+v, %v", got, err)
	}
	if err := v.client.RebootServer(ctx, zone, id); err != nil {
		t.Fatal(err)
	}
	v.turn(t, func(k *sandbox.Knobs) { k.Diagnostics = sandbox.EndsInError })
	if got, err := look(); err != nil || !got.Done || got.Healthy {
		t.Errorf("one that ends in an error: %+v, %v", got, err)
	}
	v.turn(t, func(k *sandbox.Knobs) { k.Diagnostics = sandbox.Unavailable })
	if _, err := look(); !cloud.IsUnavailable(err) {
		t.Errorf("no diagnostics: %v", err)
	}
}
