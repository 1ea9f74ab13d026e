package host_test

import (
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// A Mac whose release was held since another cluster took it is not wiped when that one frees
// it into a pool of its own.
func TestAReleaseEndsInNoOtherClustersPool(t *testing.T) {
	for name, want := range map[string]host.WipeStep{"pool-" + serverID: host.WipeRecord, "theirs-" + serverID: host.WipeForeign} {
		for _, policy := range []infrav1.ReleasePolicy{infrav1.Recycle, infrav1.Terminate} {
			h := pooled(claimed)
			h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: policy, PoolPrefix: "pool-"}
			look := host.WipeInput{Server: cloud.Server{Name: name, Status: cloud.StatusReady, Delivered: true}, Began: at(10).Time, Pools: []string{""}}
			if got := host.NextWipe(h, look); got != want {
				t.Errorf("%s of %s: step %s, want %s", policy, name, got, want)
			}
		}
	}
}

// A claim that no Machine made ends when the server is somebody else's: its release would
// else lie in wait until that one gives the server its pool name again.
func TestAClaimOfNoMachineEndsWithAForeignName(t *testing.T) {
	adopting := func(h *host.Host) { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: prefix} }
	requested := func(h *host.Host) { host.RecordWipe(h, at(6).Time) }
	started := func(h *host.Host) { requested(h); host.RecordWipeStart(h, at(7).Time) }
	kinds := map[string]func(*host.Host){
		"given back": func(h *host.Host) { host.GiveBack(h, "t-6", noon()) },
		"adopted":    func(h *host.Host) { adopting(h); host.Adopt(h, "t-6", noon()) },
		"unseen":     func(h *host.Host) { host.WipeUnseen(h, prefix, "t-6", noon()) },
	}
	for name, row := range map[string]struct {
		kind   string
		then   func(*host.Host)
		server cloud.Server
		want   host.WipeStep
	}{
		"given back, ours still":          {"given back", nil, cloud.Server{Name: prefix + "1", Status: "ready"}, host.WipeRecord},
		"given back":                      {"given back", nil, cloud.Server{Name: "m-b", Status: "ready"}, host.WipeEndClaim},
		"given back, reinstalling":        {"given back", nil, cloud.Server{Name: "m-b", Status: "reinstalling"}, host.WipeEndClaim},
		"given back, requested":           {"given back", requested, cloud.Server{Name: "m-b", Status: "ready"}, host.WipeEndClaim},
		"given back, started":             {"given back", started, cloud.Server{Name: "m-b", Status: "reinstalling"}, host.WipeEndClaim},
		"given back, started, goes":       {"given back", started, cloud.Server{Name: "m-b", Status: "reinstalling", DeletionScheduled: true}, host.WipeEndClaim},
		"given back, ours still, goes":    {"given back", started, cloud.Server{Name: prefix + "1", Status: "reinstalling", DeletionScheduled: true}, host.WipeWait},
		"adopted, ours still":             {"adopted", nil, cloud.Server{Name: prefix + "1", Status: "ready"}, host.WipeRecord},
		"adopted":                         {"adopted", nil, cloud.Server{Name: "m-b", Status: "ready"}, host.WipeEndClaim},
		"adopted, requested":              {"adopted", requested, cloud.Server{Name: "m-b", Status: "ready"}, host.WipeEndClaim},
		"adopted, requested, reinstalls":  {"adopted", requested, cloud.Server{Name: "m-b", Status: "reinstalling"}, host.WipeStart},
		"adopted, started":                {"adopted", started, cloud.Server{Name: "m-b", Status: "reinstalling"}, host.WipeWait},
		"unseen, ours still":              {"unseen", nil, cloud.Server{Name: prefix + "1", Status: "ready"}, host.WipeRecord},
		"unseen, named by another before": {"unseen", nil, cloud.Server{Name: "m-b", Status: "ready"}, host.WipeEndClaim},
	} {
		t.Run(name, func(t *testing.T) {
			h := pooled()
			if kinds[row.kind](h); row.then != nil {
				row.then(h)
			}
			look := host.WipeInput{Server: row.server, Began: at(10).Time, Timeout: 45 * time.Minute, Pools: []string{prefix}}
			if got := host.NextWipe(h, look); got != row.want {
				t.Errorf("step %s, want %s", got, row.want)
			}
			if row.want != host.WipeEndClaim {
				return
			}
			if host.Free(h); h.Spec.ClaimRef != nil || h.Spec.Release != nil || host.Clean(h) {
				t.Errorf("let go: %+v", h.Spec)
			}
		})
	}
}
