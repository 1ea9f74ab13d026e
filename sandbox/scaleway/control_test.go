package scaleway_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

func (w *world) arm(f scaleway.Fault) scaleway.Fault {
	w.t.Helper()
	armed, err := w.Arm(f)
	must(w.t, err)
	return armed
}

func TestFaultBeforeTheEffect(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	fault := w.arm(scaleway.Fault{Call: "UpdateServer", Error: "transient_state", Count: 1})
	if refused := as[*scw.TransientStateError](t, w.rename(s.ID, "renamed")); refused.ResourceID != s.ID || refused.CurrentState != "ready" {
		t.Errorf("refused with %+v", refused)
	}
	if view, _ := w.Server(s.ID); view.Name != "mac" {
		t.Error("the call took effect")
	}
	must(t, w.rename(s.ID, "renamed"))
	entries := w.Journal(0)
	if e := entries[0]; e.Status != 409 || e.EffectStatus != 0 || e.Fault != fault.ID {
		t.Errorf("journal: %+v", e)
	}
}

func TestFaultAfterTheEffect(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	w.arm(scaleway.Fault{Call: "CreateServer", Server: "unlucky", When: scaleway.AfterEffect, Status: 502, Count: 1})
	w.create("lucky")
	_, err := w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: "unlucky", Type: "M2-L"})
	if failed := as[*scw.ResponseError](t, err); failed.StatusCode != 502 {
		t.Errorf("status %d", failed.StatusCode)
	}
	created, found := w.Server("unlucky")
	if !found {
		t.Fatal("the call took no effect")
	}
	entry := w.Journal(0)[len(w.Journal(0))-1]
	if entry.Status != 502 || entry.EffectStatus != 200 || entry.ServerID != created.ID {
		t.Errorf("journal: %+v", entry)
	}
}

func TestDroppedConnections(t *testing.T) {
	for when, name := range map[string]string{scaleway.BeforeEffect: "mac", scaleway.AfterEffect: "renamed"} {
		w := newWorld(t, scaleway.Options{})
		s := w.pool(scaleway.ServerSpec{Name: "mac"})
		w.arm(scaleway.Fault{Method: "patch", Path: `/servers/[^/]+$`, Server: s.ID, When: when, Drop: true, Count: 1})
		err := w.rename(s.ID, "renamed")
		var typed *scw.ResponseError
		if err == nil || errors.As(err, &typed) {
			t.Errorf("%s: got %v, want a network failure", when, err)
		}
		if view, _ := w.Server(s.ID); view.Name != name {
			t.Errorf("%s: name %q, want %q", when, view.Name, name)
		}
	}
}

func TestThrottlingHasNoBody(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	w.arm(scaleway.Fault{Status: 429})
	response, body := w.raw("GET", "/metadata", scaleway.DefaultSecretKey, "")
	if response.StatusCode != 429 || body != "" || response.Header.Get("Content-Type") != "" || response.Header.Get("X-Envoy-Ratelimited") != "true" {
		t.Errorf("throttled with %d, %q, %v", response.StatusCode, body, response.Header)
	}
	_, err := w.macs.ListServers(&applesilicon.ListServersRequest{})
	if failed := as[*scw.ResponseError](t, err); failed.StatusCode != 429 {
		t.Errorf("status %d", failed.StatusCode)
	}
	if w.Clear("") != 1 {
		t.Error("nothing to clear")
	}
	_, err = w.macs.ListServers(&applesilicon.ListServersRequest{})
	must(t, err)
}

func TestDelayHoldsTheCall(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	w.arm(scaleway.Fault{Call: "UpdateServer", Delay: scaleway.Duration(10 * time.Second), Count: 1})
	done := make(chan error, 1)
	go func() { done <- w.rename(s.ID, "renamed") }()
	awaitHits(t, w)
	for {
		select {
		case err := <-done:
			must(t, err)
			if view, _ := w.Server(s.ID); view.Name != "renamed" {
				t.Errorf("name %q", view.Name)
			}
			return
		default:
			// Until the call has its timer, a step passes it by.
			w.clock.Step(10 * time.Second)
		}
	}
}

// awaitHits waits until the one-shot fault has met its call.
func awaitHits(t *testing.T, w *world) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for len(w.Faults()) > 0 {
		if time.Now().After(deadline) {
			t.Fatal("the fault met no call")
		}
	}
}

func TestFaultsAreChecked(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	for name, fault := range map[string]scaleway.Fault{
		"no action":     {Call: "GetServer"},
		"odd when":      {When: "during", Status: 500},
		"unknown error": {Error: "bad_mood"},
		"odd status":    {Status: 99},
		"bare body":     {Body: json.RawMessage(`{}`)},
		"negative":      {Status: 500, Count: -1},
		"bad pattern":   {Status: 500, Path: "("},
		"odd garbage":   {Garbage: "banana"},
		"sure chance":   {Status: 500, Probability: 1.1},
	} {
		if _, err := w.Arm(fault); err == nil {
			t.Errorf("%s: armed", name)
		}
	}
	if len(w.Faults()) != 0 {
		t.Error("a refused fault was armed")
	}
}

func TestEveryErrorCanBeArmed(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	checks := map[string]func(*testing.T, error){
		"denied_authentication": func(t *testing.T, err error) { _ = as[*scw.DeniedAuthenticationError](t, err) },
		"permissions_denied":    func(t *testing.T, err error) { _ = as[*scw.PermissionsDeniedError](t, err) },
		"precondition_failed":   func(t *testing.T, err error) { _ = as[*scw.PreconditionFailedError](t, err) },
		"out_of_stock":          func(t *testing.T, err error) { _ = as[*scw.OutOfStockError](t, err) },
		"not_found":             func(t *testing.T, err error) { _ = as[*scw.ResourceNotFoundError](t, err) },
		"transient_state":       func(t *testing.T, err error) { _ = as[*scw.TransientStateError](t, err) },
		"locked":                func(t *testing.T, err error) { _ = as[*scw.ResourceLockedError](t, err) },
		"quotas_exceeded":       func(t *testing.T, err error) { _ = as[*scw.QuotasExceededError](t, err) },
		"invalid_arguments":     func(t *testing.T, err error) { _ = as[*scw.InvalidArgumentsError](t, err) },
		"too_many_requests":     func(t *testing.T, err error) { _ = as[*scw.ResponseError](t, err) },
		"internal":              func(t *testing.T, err error) { _ = as[*scw.ResponseError](t, err) },
	}
	for kind, check := range checks {
		t.Run(kind, func(t *testing.T) {
			w.arm(scaleway.Fault{Call: "GetServer", Error: kind, Count: 1})
			_, err := w.macs.GetServer(&applesilicon.GetServerRequest{ServerID: s.ID})
			check(t, err)
		})
	}
}

func TestJournal(t *testing.T) {
	w := newWorld(t, scaleway.Options{JournalLimit: 10})
	s := w.create("mac")
	w.clock.Step(time.Second)
	w.raw("POST", "/nothing", scaleway.DefaultSecretKey, `{"token":"t","nested":[{"vnc_password":"p","name":"n"}]}`)
	w.raw("POST", "/nothing", scaleway.DefaultSecretKey, `token=t`)

	var creation scaleway.Entry
	for _, e := range w.Journal(0) {
		if e.Call == "CreateServer" {
			creation = e
		}
	}
	if creation.ServerID != s.ID || creation.Status != 200 || !creation.Time.Equal(startOfTime) || creation.RequestID == "" {
		t.Errorf("journal: %+v", creation)
	}
	entries := w.Journal(creation.Seq)
	last := entries[len(entries)-2:]
	got := []string{string(last[0].Body), string(last[1].Body)}
	want := []string{`{"nested":[{"name":"n","vnc_password":"(redacted)"}],"token":"(redacted)"}`, `"(not JSON)"`}
	if diff := cmp.Diff(want, got); diff != "" || last[0].Status != 501 || last[0].Call != "" {
		t.Errorf("%+v\n%s", last[0], diff)
	}
	for range 30 {
		w.raw("GET", "/metadata", scaleway.DefaultSecretKey, "")
	}
	kept := w.Journal(0)
	if len(kept) > 10 || kept[len(kept)-1].Seq != creation.Seq+32+metadataCalls(entries) {
		t.Errorf("kept %d entries, the last is %d", len(kept), kept[len(kept)-1].Seq)
	}
	if left := w.Journal(kept[len(kept)-1].Seq); len(left) != 0 {
		t.Errorf("%d entries after the last", len(left))
	}
}

// metadataCalls are the SDK's own, one for each client.
func metadataCalls(entries []scaleway.Entry) int64 {
	var n int64
	for _, e := range entries {
		if e.Call == "GetMetadata" {
			n++
		}
	}
	return n
}

func TestControlAPI(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	steps := []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/sandbox/faults", `{"call":"GetServer","status":500,"body":{"message":"internal error"},"delay":"0s","count":2}`, 201},
		{"POST", "/sandbox/faults", `{"server":"mac","error":"locked"}`, 201},
		{"POST", "/sandbox/faults", `{"colour":"red"}`, 400},
		{"POST", "/sandbox/faults", `{"when":"after"}`, 400},
		{"POST", "/sandbox/faults", `{"call":"GetServerr","status":500}`, 400},
		{"GET", "/sandbox/faults", "", 200},
		{"DELETE", "/sandbox/faults/fault-2", "", 200},
		{"DELETE", "/sandbox/faults/fault-2", "", 404},
		{"GET", "/sandbox/servers", "", 200},
		{"GET", "/sandbox/journal?after=0", "", 200},
		{"GET", "/sandbox/journal?after=x", "", 400},
		{"GET", "/sandbox/nothing", "", 404},
	}
	bodies := map[string]string{}
	for _, step := range steps {
		response, body := w.raw(step.method, step.path, "", step.body)
		if response.StatusCode != step.status {
			t.Errorf("%s %s %s: %d %s", step.method, step.path, step.body, response.StatusCode, body)
		}
		bodies[step.method+step.path] = body
	}
	_, err := w.macs.GetServer(&applesilicon.GetServerRequest{ServerID: s.ID})
	if failed := as[*scw.ResponseError](t, err); failed.Message != "internal error" {
		t.Errorf("message %q", failed.Message)
	}
	if faults := w.Faults(); len(faults) != 1 || faults[0].Count != 1 || faults[0].Hits != 1 {
		t.Errorf("faults: %+v", faults)
	}
	var listed struct {
		Servers []scaleway.Server `json:"servers"`
	}
	must(t, json.Unmarshal([]byte(bodies["GET/sandbox/servers"]), &listed))
	s.Password = "" // never in JSON
	if diff := cmp.Diff([]scaleway.Server{s}, listed.Servers, cmp.Comparer(func(a, b scaleway.Server) bool {
		return fmt.Sprint(a) == fmt.Sprint(b)
	})); diff != "" {
		t.Error(diff)
	}
	if len(w.Journal(0)) != 1 {
		t.Errorf("the control API is in the journal: %+v", w.Journal(0))
	}
}

func TestControlAPIChangesTheWorld(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	gone := w.pool(scaleway.ServerSpec{Name: "gone"})
	for _, step := range []struct {
		method, path, body string
		status             int
	}{
		{"PATCH", "/sandbox/knobs", `{"list_lag":"5s","gone_as":404}`, 200},
		{"PATCH", "/sandbox/knobs", `{"sealed":"clear"}`, 200},
		{"PATCH", "/sandbox/knobs", `{"gone_as":410}`, 400},
		{"PATCH", "/sandbox/knobs", `{"colour":"red"}`, 400},
		{"PATCH", "/sandbox/types/M2-L", `{"stock":"no_stock"}`, 204},
		{"PATCH", "/sandbox/types/M2-M", `{"quota":0}`, 204},
		{"PATCH", "/sandbox/types/M2-L", `{"stock":"plenty"}`, 400},
		{"PATCH", "/sandbox/types/M9", `{"quota":1}`, 404},
		{"PATCH", "/sandbox/servers/mac", `{"name":"theirs","status":"busy","schedule_deletion":true}`, 204},
		{"PATCH", "/sandbox/servers/theirs", `{"deletable_at":"2026-04-01T00:00:00Z"}`, 204},
		{"PATCH", "/sandbox/servers/nobody", `{"name":"x"}`, 404},
		{"DELETE", "/sandbox/servers/" + gone.ID, "", 204},
		{"DELETE", "/sandbox/servers/" + gone.ID, "", 404},
		{"PUT", "/sandbox/rules", `{"operation":"rename","status":"busy","verdict":"locked"}`, 204},
		{"PUT", "/sandbox/rules", `{"operation":"rename","status":"busy","verdict":"maybe"}`, 400},
		{"PUT", "/sandbox/rights", `{"rights":"some"}`, 400},
	} {
		if response, body := w.raw(step.method, step.path, "", step.body); response.StatusCode != step.status {
			t.Errorf("%s %s %s: %d %s", step.method, step.path, step.body, response.StatusCode, body)
		}
	}
	want := scaleway.Knobs{ListLag: scaleway.Duration(5 * time.Second), GoneAs: 404, Sealed: scaleway.SealNever}
	if diff := cmp.Diff(want, w.Knobs()); diff != "" {
		t.Error(diff)
	}
	var shown scaleway.Knobs
	_, body := w.raw("GET", "/sandbox/knobs", "", "")
	must(t, json.Unmarshal([]byte(body), &shown))
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	if view := w.Servers(); len(view) != 1 || view[0].Name != "theirs" || view[0].Status != scaleway.StatusBusy || !view[0].DeletionScheduled ||
		!view[0].DeletableAt.Equal(time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("servers: %+v", view)
	}
	_ = as[*scw.ResourceLockedError](t, w.rename(s.ID, "mine"))
	_, err := w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: "x", Type: "M2-L"})
	_ = as[*scw.OutOfStockError](t, err)
	_, err = w.macs.CreateServer(&applesilicon.CreateServerRequest{Name: "x", Type: "M2-M"})
	_ = as[*scw.QuotasExceededError](t, err)

	w.raw("PUT", "/sandbox/rights", "", `{"rights":"none"}`)
	_ = as[*scw.PermissionsDeniedError](t, w.rename(s.ID, "mine"))
	w.raw("PUT", "/sandbox/keys", "", `{"secret_keys":["rotated"]}`)
	_ = as[*scw.DeniedAuthenticationError](t, w.rename(s.ID, "mine"))
}

func TestControlAPIAnswersLoopbackOnly(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	for peer, want := range map[string]int{"192.0.2.1:4000": 403, "127.0.0.1:4000": 200, "[::1]:4000": 200, "": 403} {
		request := httptest.NewRequest(http.MethodGet, "/sandbox/journal", nil)
		request.RemoteAddr = peer
		recorder := httptest.NewRecorder()
		w.ServeHTTP(recorder, request)
		if recorder.Code != want {
			t.Errorf("from %q: %d, want %d", peer, recorder.Code, want)
		}
	}
}

func TestListen(t *testing.T) {
	vendor := scaleway.New(scaleway.Options{})
	defer vendor.Close()
	if _, err := scaleway.Listen(t.Context(), vendor, "0.0.0.0:0"); !errors.Is(err, scaleway.ErrNotLoopback) {
		t.Errorf("listening to everyone: %v", err)
	}
	listener, err := scaleway.Listen(t.Context(), vendor, "127.0.0.1:0")
	must(t, err)
	if _, err := scaleway.Listen(t.Context(), vendor, listener.URL()[len("http://"):]); err == nil {
		t.Error("one address was taken twice")
	}
	response, err := http.Get(listener.URL() + "/sandbox/servers")
	must(t, err)
	_ = response.Body.Close()
	must(t, listener.Close())
	if response, err := http.Get(listener.URL()); err == nil {
		_ = response.Body.Close()
		t.Error("still listening")
	}
}

// Many clients at once must neither lose nor mix up what they do.
func TestConcurrentClients(t *testing.T) {
	w := newWorld(t, scaleway.Options{Hardware: newQuietMacs()})
	var clients sync.WaitGroup
	for i := range 8 {
		api := applesilicon.NewAPI(w.client(scaleway.DefaultSecretKey))
		clients.Go(func() {
			for j := range 5 {
				name := fmt.Sprintf("mac-%d-%d", i, j)
				s, err := api.CreateServer(&applesilicon.CreateServerRequest{Name: name, Type: "M2-L"})
				if err != nil {
					t.Error(err)
					return
				}
				w.clock.Step(time.Minute)
				if got, err := api.GetServer(&applesilicon.GetServerRequest{ServerID: s.ID}); err != nil || got.Name != name {
					t.Errorf("got %v, %v", got, err)
				}
			}
		})
	}
	clients.Wait()
	w.clock.Step(time.Hour)
	w.settle()
	servers := w.Servers()
	if len(servers) != 40 {
		t.Errorf("%d servers, want 40", len(servers))
	}
	for _, s := range servers {
		if s.Status != scaleway.StatusReady {
			t.Errorf("%s is %s", s.Name, s.Status)
		}
	}
}
