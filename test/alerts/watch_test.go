package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A watch of an endpoint sees an alert wait, fire and end, a gauge of passed time pass with its own, and the end of
// an endpoint that does not answer.
func TestWatch(t *testing.T) {
	var text atomic.Value
	endpoint := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = w.Write([]byte(text.Load().(string)))
	}))
	defer endpoint.Close()
	w := watchOf(t, endpoint.URL, `groups: [{name: g, rules: [
		{alert: Bad, expr: max(bad) > 0, for: 30s},
		{alert: Late, expr: waited_seconds > 600},
		{alert: Nobody, expr: absent(bad)}]}]`)

	// Ten seconds that have passed are ten minutes here.
	text.Store("bad 1\nwaited_seconds 11\n")
	for _, want := range []map[string]string{
		{"Bad": "pending", "Late": "firing"},
		{"Bad": "pending", "Late": "firing"},
		{"Bad": "firing", "Late": "firing"},
	} {
		w.turn(t.Context())
		w.shows(t, want)
	}
	text.Store("bad 0\nwaited_seconds 1\n")
	w.turn(t.Context())
	w.shows(t, map[string]string{})
	endpoint.CloseClientConnections()
	if err := os.WriteFile(w.tokenFile, []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.turn(t.Context())
	w.shows(t, map[string]string{"Nobody": "firing"})
	if failed := w.state().Failed; failed == "" {
		t.Error("it does not say that it is refused")
	}
}

func watchOf(t *testing.T, url, rules string) *watch {
	t.Helper()
	dir := t.TempDir()
	o := options{
		rules: filepath.Join(dir, "rules.yaml"), url: url, tokenFile: filepath.Join(dir, "token"),
		stretch: "waited_seconds", every: 250 * time.Millisecond, step: 15 * time.Second,
	}
	for file, text := range map[string]string{o.rules: rules, o.tokenFile: "good\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newWatch(filepath.Join(dir, "series"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// shows compares the states of the alerts that the API tells.
func (w *watch) shows(t *testing.T, want map[string]string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	w.handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/api/v1/alerts", nil))
	var answer struct{ Data state }
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, a := range answer.Data.Alerts {
		found[a.Labels["alertname"]] = a.State
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("after %s (-want +found):\n%s", answer.Data.Passed, diff)
	}
}
