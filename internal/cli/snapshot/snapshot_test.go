package snapshot

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/macfleet/macfleet/internal/cli/cluster"
)

// answers are a server's, by the end of the path that is asked for; all other lists are empty.
func answers(t *testing.T, codes map[string]int) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kind := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		code, set := codes[kind]
		if !set {
			code = codes["*"]
		}
		if code == 0 {
			_, _ = w.Write([]byte(`{"metadata":{},"items":[{"metadata":{"name":"one","namespace":"ns"}}]}`))
			return
		}
		reasons := map[int]string{401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 503: "ServiceUnavailable"}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reasons[code] + `","message":"words of the server"}`))
	}))
	t.Cleanup(server.Close)
	return server
}

func load(t *testing.T, server *httptest.Server, namespace string, kinds ...Kind) (*Snapshot, error) {
	t.Helper()
	c, err := cluster.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return Load(t.Context(), c, namespace, kinds...)
}

var everything = []Kind{Hosts, Machines, Templates, Zones, Remediations, Profiles, ControlPlanes, CoreMachines, Fleets, HealthChecks, Clusters, Nodes, Events}

func TestLoadsEachKindIntoItsPlace(t *testing.T) {
	s, err := load(t, answers(t, nil), "", append(everything, Pods)...)
	if err != nil {
		t.Fatal(err)
	}
	got := []int{
		len(s.Hosts), len(s.Machines), len(s.Templates), len(s.Zones), len(s.Remediations), len(s.Profiles), len(s.ControlPlanes),
		len(s.CoreMachines), len(s.Fleets), len(s.HealthChecks), len(s.Clusters), len(s.Nodes), len(s.Events), len(s.Pods),
	}
	if !slices.Equal(got, slices.Repeat([]int{1}, len(got))) || len(s.Missing) != 0 {
		t.Errorf("has %v, missing %v", got, s.Missing)
	}
}

// Who may see half sees that half, and which is missing.
func TestWhatMayNotBeReadIsSaid(t *testing.T) {
	s, err := load(t, answers(t, map[string]int{"nodes": 403, "machinedeployments": 404, "macnodeprofiles": 403}), "", everything...)
	if err != nil {
		t.Fatal(err)
	}
	why := map[Kind]string{}
	for _, m := range s.Missing {
		why[m.Kind] = m.Why
	}
	if len(why) != 3 || !strings.Contains(why[Nodes], "may not list") || !strings.Contains(why[Profiles], "-n") || !strings.Contains(why[Fleets], "Cluster API") {
		t.Errorf("missing: %v", why)
	}
	if len(s.Hosts) != 1 {
		t.Errorf("the other half has %d hosts", len(s.Hosts))
	}
}

func TestOneLineSaysWhyNothingIsThere(t *testing.T) {
	away := answers(t, nil)
	away.Close()
	for name, c := range map[string]struct {
		server *httptest.Server
		says   string
	}{
		"expired":     {answers(t, map[string]int{"nodes": 401}), "expired or were revoked"},
		"no macfleet": {answers(t, map[string]int{"scalewayapplesiliconhosts": 404}), "has no macfleet"},
		"away":        {away, "cannot be reached"},
		"overloaded":  {answers(t, map[string]int{"*": 503}), "cannot answer now"},
		"no right":    {answers(t, map[string]int{"*": 403}), "nothing can be shown"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.server, "", everything...)
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("says %v, want one line with %q", err, c.says)
			}
		})
	}
}

func TestANamespaceLimitsWhatHasOne(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"List","apiVersion":"v1","items":[]}`))
	}))
	t.Cleanup(server.Close)
	for _, kind := range []Kind{Hosts, Machines, PendingPods} {
		if _, err := load(t, server, "ns", kind); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"/scalewayapplesiliconhosts", "/namespaces/ns/scalewayapplesiliconmachines", "/namespaces/ns/pods?fieldSelector=status.phase%3DPending"}
	for i, end := range want {
		if i >= len(asked) || !strings.HasSuffix(asked[i], end) {
			t.Errorf("asked for %v, want %v", asked, want)
		}
	}
}
