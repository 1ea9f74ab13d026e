package scaleway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/macfleet/macfleet/internal/cloud/scaleway"
)

const (
	accessKey = "SCW1234567890ABCDEFG"
	secretKey = "7363616c-6577-6573-6862-6f7579616161"
	projectID = "105bdce1-64c0-48ab-899d-868455867ecf"
	serverID  = "11111111-2222-3333-4444-555555555555"
	zone      = "fr-par-1"
)

// answer is one recorded or made-up answer of the vendor.
type answer struct {
	status int
	kind   string // content type; "" for none
	body   string
}

func jsonAnswer(status int, body string) answer { return answer{status, "application/json", body} }

// vendor answers by "METHOD path" and remembers what it was asked.
type vendor struct {
	mu      sync.Mutex
	answers map[string][]answer
	asked   []string
	bodies  []string
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	key := r.Method + " " + r.URL.Path
	v.asked = append(v.asked, r.Method+" "+r.URL.RequestURI())
	v.bodies = append(v.bodies, string(body))
	queue := v.answers[key]
	if len(queue) == 0 {
		http.Error(w, "not expected: "+key, http.StatusTeapot)
		return
	}
	if len(queue) > 1 {
		v.answers[key] = queue[1:]
	}
	w.Header()["Content-Type"] = nil // no guess where the vendor sends none
	if queue[0].kind != "" {
		w.Header().Set("Content-Type", queue[0].kind)
	}
	w.Header().Set("X-Request-Id", "request-7")
	w.WriteHeader(queue[0].status)
	fmt.Fprint(w, queue[0].body)
}

func (v *vendor) requests() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.asked...)
}

func start(t *testing.T, answers map[string][]answer) (*scaleway.Client, *vendor) {
	t.Helper()
	v := &vendor{answers: answers}
	server := httptest.NewServer(v)
	t.Cleanup(server.Close)
	client, err := scaleway.New(scaleway.Options{
		AccessKey: accessKey, SecretKey: secretKey, ProjectID: projectID, APIURL: server.URL, HTTPClient: server.Client(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client, v
}

const (
	serversPath = "/apple-silicon/v1alpha1/zones/" + zone + "/servers"
	serverPath  = serversPath + "/" + serverID
)

// serverBody is a server in the vendor's form, with changes to some members.
func serverBody(changes map[string]any) string {
	members := map[string]any{
		"id": serverID, "type": "M2-L", "name": "tuist-pool-1", "project_id": projectID, "organization_id": projectID,
		"ip": "51.159.1.2", "vnc_url": "vnc://m1:abcDEF123456@51.159.1.2:59010", "ssh_username": "m1",
		"sudo_password": "abcDEF123456", "vnc_port": 59010, "status": "ready", "zone": zone, "delivered": true,
		"os":         map[string]any{"id": projectID, "name": "macos-tahoe-26.0", "family": "Tahoe", "version": "26.0"},
		"created_at": "2026-03-05T08:25:47.808092Z", "deletable_at": "2026-03-06T08:25:47.808092Z",
		"commitment": map[string]any{"type": "duration_24h", "cancelled": false}, "tags": []string{},
	}
	for name, value := range changes {
		members[name] = value
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false) // the wire carries a plain <sealed>
	if err := encoder.Encode(members); err != nil {
		panic(err)
	}
	return b.String()
}
