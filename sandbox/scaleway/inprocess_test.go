package scaleway_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	iam "github.com/scaleway/scaleway-sdk-go/api/iam/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// newInline is a world without sockets and goroutines, the same for the same seed.
func newInline(t testing.TB, opts scaleway.Options, seed byte) *world {
	t.Helper()
	clock := clocktesting.NewFakeClock(startOfTime)
	opts.Clock, opts.Inline, opts.Random = clock, true, rand.NewChaCha8([32]byte{seed})
	vendor := scaleway.New(opts)
	t.Cleanup(vendor.Close)
	client, err := scw.NewClient(
		scw.WithAuth(scaleway.DefaultAccessKey, scaleway.DefaultSecretKey),
		scw.WithDefaultProjectID(scaleway.DefaultProjectID),
		scw.WithDefaultOrganizationID(scaleway.DefaultOrganizationID),
		scw.WithDefaultZone(zone),
		scw.WithHTTPClient(&http.Client{Transport: vendor.RoundTripper()}),
	)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Vendor: vendor, clock: clock, macs: applesilicon.NewAPI(client), iam: iam.NewAPI(client)}
	w.t, _ = t.(*testing.T)
	return w
}

// told is hardware that says what it was told, in order.
type told struct{ calls []string }

func (h *told) note(what, id string) { h.calls = append(h.calls, what+" "+id) }

func (h *told) Erase(_ context.Context, id string)              { h.note("erase", id) }
func (h *told) Reboot(_ context.Context, id string, _ []string) { h.note("reboot", id) }
func (h *told) Remove(_ context.Context, id string)             { h.note("remove", id) }
func (h *told) Install(_ context.Context, i scaleway.Install) error {
	h.note("install", i.ServerID)
	return nil
}

// history plays a life of two servers and tells everything that was seen of it.
func history(t *testing.T, seed byte) []string {
	t.Helper()
	hardware := &told{}
	w := newInline(t, scaleway.Options{Hardware: hardware}, seed)
	first, second := w.ready("one"), w.ready("two")
	must(t, w.reinstall(first.ID))
	must(t, w.reboot(second.ID))
	w.clock.Step(17 * time.Minute)
	seen := []string{w.expect(first.ID, applesilicon.ServerStatusReady).SudoPassword}
	w.clock.Step(24 * time.Hour)
	must(t, w.delete(second.ID))
	for _, e := range w.Journal(0) {
		seen = append(seen, fmt.Sprintf("%+v", e))
	}
	want := []string{
		"install " + first.ID, "install " + second.ID, "erase " + first.ID, "reboot " + second.ID,
		"install " + first.ID, "remove " + second.ID,
	}
	if diff := cmp.Diff(want, hardware.calls); diff != "" {
		t.Error(diff)
	}
	return seen
}

func TestSameSeedSameHistory(t *testing.T) {
	if diff := cmp.Diff(history(t, 1), history(t, 1)); diff != "" {
		t.Error(diff)
	}
	if slices.Equal(history(t, 1), history(t, 2)) {
		t.Error("another seed changes nothing")
	}
}

func TestInlineNeverWaits(t *testing.T) {
	w := newInline(t, scaleway.Options{}, 1)
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	for name, test := range map[string]struct {
		fault    scaleway.Fault
		failed   bool
		timedOut bool
	}{
		"late":     {scaleway.Fault{Delay: scaleway.Duration(29 * time.Second)}, false, false},
		"too late": {scaleway.Fault{Delay: scaleway.Duration(30 * time.Second)}, true, true},
		"dropped":  {scaleway.Fault{Drop: true}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			test.fault.Call, test.fault.Count = "UpdateServer", 1
			w.arm(test.fault)
			err := w.rename(s.ID, name)
			var network net.Error
			if got := errors.As(err, &network) && network.Timeout(); (err != nil) != test.failed || got != test.timedOut {
				t.Errorf("got %v", err)
			}
			if view, _ := w.Server(s.ID); (view.Name == name) == test.failed {
				t.Errorf("name %q", view.Name)
			}
		})
	}
}

func TestInProcessEndsWithItsContext(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	w.arm(scaleway.Fault{Delay: scaleway.Duration(time.Hour)})
	client := &http.Client{Transport: w.RoundTripper(), Timeout: 50 * time.Millisecond}
	response, err := client.Get("http://vendor/metadata")
	if err == nil {
		_ = response.Body.Close()
	}
	var network net.Error
	if !errors.As(err, &network) || !network.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
}

// fleet is the identifier of the last of many servers.
func fleet(b *testing.B, w *world, size int) string {
	b.Helper()
	var id string
	for i := range size {
		s, err := w.AddServer(b.Context(), scaleway.ServerSpec{Name: fmt.Sprintf("mac-%d", i)})
		if err != nil {
			b.Fatal(err)
		}
		id = s.ID
	}
	return id
}

// BenchmarkSDK is a GET and a PATCH of one server, with the SDK's share.
func BenchmarkSDK(b *testing.B) {
	w := newInline(b, scaleway.Options{}, 1)
	id := fleet(b, w, 20)
	for b.Loop() {
		if _, err := w.macs.GetServer(&applesilicon.GetServerRequest{ServerID: id}); err != nil {
			b.Fatal(err)
		}
		if err := w.rename(id, "renamed"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkVendor is the same without the SDK.
func BenchmarkVendor(b *testing.B) {
	w := newInline(b, scaleway.Options{}, 1)
	url := "http://vendor" + serversPath + "/" + fleet(b, w, 20)
	transport := w.RoundTripper()
	for b.Loop() {
		for method, body := range map[string]string{http.MethodGet: "", http.MethodPatch: `{"name":"renamed"}`} {
			request, err := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			request.Header.Set("X-Auth-Token", scaleway.DefaultSecretKey)
			response, err := transport.RoundTrip(request)
			if err != nil || response.StatusCode != http.StatusOK {
				b.Fatalf("%v, %v", response, err)
			}
			if err := response.Body.Close(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(2*float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
