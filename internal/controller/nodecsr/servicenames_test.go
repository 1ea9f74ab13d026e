package nodecsr

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/workload"
)

// A Machine's name is written by whoever may make one: no certificate makes it the API
// server, nor another Service.
func TestNoCertificateHasTheNameOfAService(t *testing.T) {
	const token = "abcdef"
	for name, refused := range map[string]bool{
		"mac-1": false, "mac.svcs": false, "kubernetes-1": false,
		"kubernetes": true, "kubernetes.default": true, "kubernetes.default.svc": true, "kubernetes.default.svc.cluster.local": true,
		"web.team.svc": true, "kubernetes.default.svc.example.com": true, "x.cluster.local": true, "localhost": true,
	} {
		h := claimed(mac1, name, token)
		why := namesRefusal(nodeRequest{Node: name, Names: []string{name}}, &h)
		if strings.Contains(why, "is a Service's") != refused || (why != "") != refused {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestNoCertificateHasTheNameOfTheAPIServer(t *testing.T) {
	for server, refused := range map[string]bool{"": false, "api.example.com": false, "Mac-1.example.com": true} {
		h := claimed(mac1, "mac-1.example.com", "abcdef")
		why := namesRefusal(nodeRequest{Node: "mac-1.example.com", Names: []string{"mac-1.example.com"}, apiServer: server}, &h)
		if strings.Contains(why, "API server") != refused || (why != "") != refused {
			t.Errorf("%q: %q", server, why)
		}
	}
}

func TestTheAPIServersNameIsThatOfItsClients(t *testing.T) {
	failure := errors.New("forbidden")
	for name, c := range map[string]struct {
		endpoint workload.Endpoint
		err      error
		want     string
		fails    bool
	}{
		"a name":      {endpoint: workload.Endpoint{Server: "https://api.example.com:6443"}, want: "api.example.com"},
		"an address":  {endpoint: workload.Endpoint{Server: "https://[2001:db8::1]:6443"}, want: "2001:db8::1"},
		"nobody says": {err: &workload.UnknownEndpointError{Cause: "none"}},
		"no answer":   {err: failure, fails: true},
	} {
		r := &Reconciler{APIServer: func(context.Context) (workload.Endpoint, error) { return c.endpoint, c.err }}
		got, err := r.apiServer(t.Context(), nodeRequest{Names: []string{"mac-1"}})
		if got != c.want || errors.Is(err, failure) != c.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
