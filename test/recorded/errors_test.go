package recorded

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// The gateway answers the same errors for all of its APIs. Two that were recorded
// elsewhere are compared with what the simulator answers for a server.
func TestErrorsOfOtherAPIs(t *testing.T) {
	folder := recordings(t)
	tests := map[string]struct {
		fault scaleway.Fault
		// moved are the members that name the resource.
		moved []string
	}{
		"extract-409-transient-vpcgw": {
			scaleway.Fault{Error: "transient_state"}, []string{"resource", "current_state"},
		},
		"extract-429-block": {scaleway.Fault{Status: http.StatusTooManyRequests}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			vendor := scaleway.New(scaleway.Options{})
			defer vendor.Close()
			if _, err := vendor.Arm(test.fault); err != nil {
				t.Fatal(err)
			}
			site := httptest.NewServer(vendor)
			defer site.Close()
			recorded := load(t, filepath.Join(folder, name+".cassette.yaml")).Interactions[0]
			compare := &comparison{t: t, moved: test.moved, ids: map[string]string{}}

			ours := exchange{}
			ours.Request.Method = http.MethodGet
			ours.Request.URL = site.URL + "/apple-silicon/v1alpha1/zones/fr-par-1/servers"
			status, header, body := send(t, site.URL, compare, ours, world{})
			if status != recorded.Response.Code {
				t.Errorf("recorded %d, ours %d", recorded.Response.Code, status)
			}
			for _, key := range []string{"Content-Type", "X-Envoy-Ratelimited"} {
				if want, got := recorded.Response.Headers.Get(key), header.Get(key); want != got {
					t.Errorf("%s: recorded %q, ours %q", key, want, got)
				}
			}
			compare.bodies(name, strings.TrimSpace(recorded.Response.Body), body)
		})
	}
}
