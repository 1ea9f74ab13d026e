package node

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// A permit that is used up without a Node keeps the Mac out. So an agent that is
// told to stop while its Node is being made waits for the answer.
func TestAStopDoesNotWasteThePermit(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		stop()
		// A request that is given up is seen here at once.
		select {
		case <-r.Context().Done():
			return
		case <-time.After(300 * time.Millisecond):
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	}))
	defer server.Close()
	client := newClient(t, &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	dir := t.TempDir()
	k := &Keeper{
		o:       Options{Client: client, Self: self(), Log: slog.New(slog.DiscardHandler)},
		permits: permits{file: filepath.Join(dir, "permit"), used: filepath.Join(dir, "used")},
	}
	made, err := k.create(ctx, "p1")
	if err != nil {
		t.Fatalf("the Node was given up with its permit used: %v", err)
	}
	if made.Name != self().Config.Host.Name {
		t.Errorf("made Node %q", made.Name)
	}
	if _, err := k.create(ctx, "p2"); err == nil {
		t.Error("an agent that stops began another Node")
	}
	if used, err := k.permits.wasUsed("p2"); err != nil || used {
		t.Errorf("its permit is used: %v, %v", used, err)
	}
}
