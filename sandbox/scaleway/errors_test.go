package scaleway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

const nobody = "8dfc9a8d-7f56-4ad9-a0d0-86c9c1a3a0c6"

// as is the typed error that the SDK is expected to make of an answer.
func as[T error](t *testing.T, err error) T {
	t.Helper()
	var typed T
	if !errors.As(err, &typed) {
		t.Fatalf("got %T (%v), want %T", err, err, typed)
	}
	return typed
}

func TestFloorIsTyped(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.ready("mac")
	refused := as[*scw.PreconditionFailedError](t, w.delete(s.ID))
	want := "this server cannot be deleted before 2026-03-06 08:25:47.808092 +0000 UTC"
	if refused.HelpMessage != want || refused.Precondition != "unknown_precondition" {
		t.Errorf("help %q, precondition %q", refused.HelpMessage, refused.Precondition)
	}
	w.expect(s.ID, applesilicon.ServerStatusReady)
}

func TestGoneIsForbidden(t *testing.T) {
	w := newWorld(t, scaleway.Options{Floor: scaleway.NoFloor})
	s := w.ready("mac")
	must(t, w.delete(s.ID))
	for _, id := range []string{s.ID, nobody} {
		_, err := w.macs.GetServer(&applesilicon.GetServerRequest{ServerID: id})
		denied := as[*scw.PermissionsDeniedError](t, err)
		if len(denied.Details) != 1 || denied.Details[0].Resource != "server" || denied.Details[0].Action != "read" {
			t.Errorf("details %+v", denied.Details)
		}
	}
	_ = as[*scw.PermissionsDeniedError](t, w.rename(s.ID, "x"))
	_ = as[*scw.PermissionsDeniedError](t, w.delete(s.ID))
	_, err := w.macs.GetServer(&applesilicon.GetServerRequest{ServerID: "not-a-uuid"})
	_ = as[*scw.InvalidArgumentsError](t, err)
}

func TestOtherZoneDoesNotHaveTheServer(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	_, err := w.macs.GetServer(&applesilicon.GetServerRequest{Zone: "fr-par-3", ServerID: s.ID})
	_ = as[*scw.PermissionsDeniedError](t, err)
	_, err = w.macs.GetServer(&applesilicon.GetServerRequest{Zone: "nl-ams-1", ServerID: s.ID})
	_ = as[*scw.InvalidArgumentsError](t, err)
}

func TestOperationsByStatus(t *testing.T) {
	operations := map[string]func(*world, string) error{
		"rename":    func(w *world, id string) error { return w.rename(id, "renamed") },
		"update":    func(w *world, id string) error { return w.bandwidth(id) },
		"reboot":    (*world).reboot,
		"reinstall": (*world).reinstall,
		"delete":    (*world).delete,
	}
	tests := []struct {
		status                                    scaleway.Status
		rename, update, reboot, reinstall, remove string
	}{
		{scaleway.StatusStarting, "", "", "409", "409", "412"},
		{scaleway.StatusReady, "", "", "", "", "412"},
		{scaleway.StatusRebooting, "", "", "409", "409", "412"},
		{scaleway.StatusReinstalling, "", "", "409", "409", "412"},
		{scaleway.StatusError, "", "", "", "", "412"},
		{scaleway.StatusLocked, "423", "423", "423", "423", "423"},
	}
	for _, test := range tests {
		for name, want := range map[string]string{
			"rename": test.rename, "update": test.update, "reboot": test.reboot, "reinstall": test.reinstall, "delete": test.remove,
		} {
			t.Run(fmt.Sprintf("%s while %s", name, test.status), func(t *testing.T) {
				w := newWorld(t, scaleway.Options{})
				s := w.pool(scaleway.ServerSpec{Name: "mac"})
				w.SetStatus(s.ID, test.status)
				if got := verdict(t, operations[name](w, s.ID)); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		}
	}
}

func (w *world) bandwidth(id string) error {
	_, err := w.macs.UpdateServer(&applesilicon.UpdateServerRequest{ServerID: id, PublicBandwidthBps: scw.Uint64Ptr(1_000_000_000)})
	return err
}

func verdict(t *testing.T, err error) string {
	t.Helper()
	var transient *scw.TransientStateError
	var locked *scw.ResourceLockedError
	var precondition *scw.PreconditionFailedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &transient):
		return "409"
	case errors.As(err, &locked):
		return "423"
	case errors.As(err, &precondition):
		return "412"
	}
	t.Fatalf("unexpected error %T: %v", err, err)
	return ""
}

func TestRenameWhileReinstalling(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	must(t, w.reinstall(s.ID))
	must(t, w.rename(s.ID, "taken"))

	w.SetRule(scaleway.OpRename, scaleway.StatusReinstalling, scaleway.Transient)
	refused := as[*scw.TransientStateError](t, w.rename(s.ID, "refused"))
	want := &scw.TransientStateError{Resource: "server", ResourceID: s.ID, CurrentState: "reinstalling"}
	refused.RawBody = nil
	if diff := cmp.Diff(want, refused); diff != "" {
		t.Error(diff)
	}
	must(t, w.bandwidth(s.ID))
	w.clock.Step(17 * time.Minute)
	must(t, w.rename(s.ID, "taken again"))
	if name := w.get(s.ID).Name; name != "taken again" {
		t.Errorf("name %q", name)
	}
}

func TestOrdersRefused(t *testing.T) {
	order := func(change func(*applesilicon.CreateServerRequest)) *applesilicon.CreateServerRequest {
		request := &applesilicon.CreateServerRequest{Name: "mac", Type: "M2-L"}
		change(request)
		return request
	}
	invalid := func(t *testing.T, err error) { _ = as[*scw.InvalidArgumentsError](t, err) }
	tests := map[string]struct {
		request *applesilicon.CreateServerRequest
		check   func(t *testing.T, err error)
	}{
		"unknown type":  {order(func(r *applesilicon.CreateServerRequest) { r.Type = "M9" }), invalid},
		"unknown image": {order(func(r *applesilicon.CreateServerRequest) { r.OsID = scw.StringPtr(nobody) }), invalid},
		"image of another type": {order(func(r *applesilicon.CreateServerRequest) {
			r.OsID = scw.StringPtr("decafedd-9f25-4e16-b86b-47c5a6c6577b")
		}), invalid},
		"odd bandwidth":  {order(func(r *applesilicon.CreateServerRequest) { r.PublicBandwidthBps = 7 }), invalid},
		"bad project":    {order(func(r *applesilicon.CreateServerRequest) { r.ProjectID = "mine" }), invalid},
		"bad commitment": {order(func(r *applesilicon.CreateServerRequest) { r.CommitmentType = "forever" }), invalid},
		"no stock": {order(func(r *applesilicon.CreateServerRequest) { r.Type = "M4-XL" }), func(t *testing.T, err error) {
			if out := as[*scw.OutOfStockError](t, err); out.Resource != "server" {
				t.Errorf("resource %q", out.Resource)
			}
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, scaleway.Options{})
			w.SetStock("M4-XL", scaleway.NoStock)
			_, err := w.macs.CreateServer(test.request)
			test.check(t, err)
			if len(w.Servers()) != 0 {
				t.Error("a refused order left a server")
			}
		})
	}
}

func TestStockIsPerVendor(t *testing.T) {
	catalogue := scaleway.DefaultCatalogue()
	one := newWorld(t, scaleway.Options{Catalogue: &catalogue})
	other := newWorld(t, scaleway.Options{Catalogue: &catalogue})
	one.SetStock("M2-L", scaleway.NoStock)
	other.create("mac")
	if kind, err := one.macs.GetServerType(&applesilicon.GetServerTypeRequest{ServerType: "M2-L"}); err != nil || kind.Stock != applesilicon.ServerTypeStockNoStock {
		t.Errorf("stock %v, error %v", kind, err)
	}
}

func TestAuthentication(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	stranger := applesilicon.NewAPI(w.client(nobody))
	_, err := stranger.ListServers(&applesilicon.ListServersRequest{})
	denied := as[*scw.DeniedAuthenticationError](t, err)
	if denied.Method != "api_key" || denied.Reason != "not_found" {
		t.Errorf("denied by %q for %q", denied.Method, denied.Reason)
	}
	w.SetSecretKeys(nobody)
	_, err = stranger.ListServers(&applesilicon.ListServersRequest{})
	must(t, err)
	_, err = w.macs.ListServers(&applesilicon.ListServersRequest{})
	_ = as[*scw.DeniedAuthenticationError](t, err)
}

// raw is a request without the SDK.
func (w *world) raw(method, path, token, body string) (*http.Response, string) {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	must(w.t, err)
	if token != "" {
		request.Header.Set("X-Auth-Token", token)
	}
	response, err := http.DefaultClient.Do(request)
	must(w.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	must(w.t, err)
	return response, string(text)
}

func TestAnswersOnTheWire(t *testing.T) {
	const servers = "/apple-silicon/v1alpha1/zones/fr-par-1/servers"
	w := newWorld(t, scaleway.Options{})
	tests := map[string]struct {
		method, path, token, body string
		status                    int
		want                      string
	}{
		"no key": {
			"GET", servers, "", "", 401,
			`{"message":"authentication is denied","method":"api_key","reason":"not_found","type":"denied_authentication"}`,
		},
		"gone": {
			"GET", servers + "/" + nobody, scaleway.DefaultSecretKey, "", 403,
			`{"details":[{"action":"read","resource":"server"}],"message":"insufficient permissions","type":"permissions_denied"}`,
		},
		"missing key": {
			"GET", "/iam/v1alpha1/ssh-keys/" + nobody, scaleway.DefaultSecretKey, "", 404,
			`{"message":"resource is not found","resource":"ssh_key","resource_id":"` + nobody + `","type":"not_found"}`,
		},
		"bad project": {
			"POST", servers, scaleway.DefaultSecretKey, `{"project_id":"x"}`, 400,
			`{"details":[{"argument_name":"project_id","help_message":"value must be a valid UUID","reason":"format"}],"message":"invalid argument(s)","type":"invalid_arguments"}`,
		},
		"empty list":   {"GET", servers, scaleway.DefaultSecretKey, "", 200, `{"servers":[],"total_count":0}`},
		"metadata":     {"GET", "/metadata", scaleway.DefaultSecretKey, "", 200, `{"domain":"scw.eu","partition":"scw","platform":"external"}`},
		"not served":   {"GET", "/vpc/v2/regions/fr-par/vpcs", scaleway.DefaultSecretKey, "", 501, `{"message":"the simulated vendor does not serve this: GET /vpc/v2/regions/fr-par/vpcs","type":"not_served"}`},
		"not JSON":     {"POST", servers, scaleway.DefaultSecretKey, `{`, 400, `{"details":[{"argument_name":"body","help_message":"body must be a JSON object","reason":"format"}],"message":"invalid argument(s)","type":"invalid_arguments"}`},
		"page zero":    {"GET", servers + "?page=0", scaleway.DefaultSecretKey, "", 400, `{"details":[{"argument_name":"page","help_message":"value must be greater than 0","reason":"constraint"}],"message":"invalid argument(s)","type":"invalid_arguments"}`},
		"unsorted":     {"GET", servers + "?order_by=name_asc", scaleway.DefaultSecretKey, "", 400, `{"details":[{"argument_name":"order_by","help_message":"value is not an order of this list","reason":"constraint"}],"message":"invalid argument(s)","type":"invalid_arguments"}`},
		"page too far": {"GET", servers + "?page=2147483647&page_size=2147483647", scaleway.DefaultSecretKey, "", 200, `{"servers":[],"total_count":0}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			response, body := w.raw(test.method, test.path, test.token, test.body)
			if response.StatusCode != test.status {
				t.Errorf("status %d, want %d", response.StatusCode, test.status)
			}
			if diff := cmp.Diff(test.want, body); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHeadersAndEncoding(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	path := "/apple-silicon/v1alpha1/zones/fr-par-1/servers/" + s.ID
	response, body := w.raw("PATCH", path, scaleway.DefaultSecretKey, `{}`)
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Date": "Thu, 05 Mar 2026 08:25:47 GMT",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Content-Length": fmt.Sprint(len(body)),
	} {
		if got := response.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if response.Header.Get("X-Request-Id") != w.Journal(0)[0].RequestID {
		t.Error("the request identifier is not the journal's")
	}
	var fields map[string]json.RawMessage
	must(t, json.Unmarshal([]byte(body), &fields))
	for name, want := range map[string]string{
		"sudo_password": `"<sealed>"`, "runner_configuration": "null", "tags": "[]",
		"applied_runner_configuration_ids": "[]", "created_at": `"2026-03-05T08:25:47.808092Z"`,
	} {
		if got := string(fields[name]); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	w.clock.Step(25 * time.Hour)
	response, body = w.raw("DELETE", path, scaleway.DefaultSecretKey, "")
	if response.StatusCode != http.StatusNoContent || body != "" || response.Header.Get("Content-Type") != "application/json" {
		t.Errorf("deleted with %d, %q, type %q", response.StatusCode, body, response.Header.Get("Content-Type"))
	}
}
