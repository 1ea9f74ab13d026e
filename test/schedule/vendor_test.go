package schedule

import (
	"context"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/scaleway"
	simulated "github.com/macfleet/macfleet/sandbox/scaleway"
)

// wireToVendor carries a manager's requests to the simulated vendor.
type wireToVendor struct{ m *manager }

// RoundTrip implements http.RoundTripper.
func (w wireToVendor) RoundTrip(r *http.Request) (*http.Response, error) {
	s := w.m.sim
	call := operation{manager: w.m, verb: r.Method, kind: "vendor", key: types.NamespacedName{Name: lastPart(r.URL.Path)}}
	var answer *http.Response
	// What happens later must not depend on the caller's patience.
	request := r.WithContext(context.WithoutCancel(r.Context()))
	name := ""
	if r.Method != http.MethodGet {
		name = s.licence(w.m, request)
	}
	err := s.through(r.Context(), call, func() (err error) {
		id, was := s.nameOf(request)
		defer func() { s.noteName(id, was) }()
		s.vendor.SetRights(simulated.DefaultSecretKey, s.rights)
		answer, err = s.vendor.RoundTripper().RoundTrip(request)
		s.vendor.SetRights(simulated.DefaultSecretKey, simulated.FullRights)
		if err == nil && answer.StatusCode == http.StatusOK && isList(r) {
			err = w.m.miss(answer)
		}
		if err == nil && r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/servers") {
			s.note("    answered %d", answer.StatusCode)
			if answer.StatusCode < 300 {
				s.mutations = append(s.mutations, mutation{w.m.cluster.name, r.Method + " " + lastPart(r.URL.Path), name, w.m.cluster.inventedFor(id)})
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// mutation is one change of a server that a manager had made.
type mutation struct {
	cluster, what, name string
	// invented: it was for a Machine that a person made up with all that an earlier claim
	// would have left, and nobody else had the Mac.
	invented bool
}

// lastPart is what a path says after the zone.
func lastPart(path string) string {
	_, rest, found := strings.Cut(path, "/zones/"+zone+"/")
	if !found {
		return path
	}
	return rest
}

func (m *manager) vendorClient() (cloud.Cloud, error) {
	return scaleway.New(scaleway.Options{
		AccessKey: "SCW1234567890ABCDEFG", SecretKey: simulated.DefaultSecretKey, ProjectID: simulated.DefaultProjectID,
		QPS: 1e9, HTTPClient: &http.Client{Transport: wireToVendor{m}},
	})
}
