package api

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func claimedHost() *infrav1.ScalewayAppleSiliconHost {
	h := newHost()
	host.Claim(h, infrav1.ClaimReference{Cluster: "c", Namespace: "default", Name: "m-1", Token: "t-1"}, time.Now())
	return h
}

func orderedHost() *infrav1.ScalewayAppleSiliconHost {
	h := claimedHost()
	h.Name = "order-" + uuid.NewString()
	h.Spec.ServerID = ""
	h.Spec.Order = &infrav1.OrderRequest{Name: "m-1", Type: "M2-L", Zone: "fr-par-1"}
	return h
}

// TestAClaimFollowsItsOwnersUID: the one part of a claim that may change. It may go,
// too: a manager from before the field writes Hosts without it.
func TestAClaimFollowsItsOwnersUID(t *testing.T) {
	for name, h := range map[string]*infrav1.ScalewayAppleSiliconHost{
		"a claim": claimedHost(),
		"one that is being released": func() *infrav1.ScalewayAppleSiliconHost {
			h := claimedHost()
			h.Spec.Release = &infrav1.Release{Token: "t-1", Policy: infrav1.Reinstall, RequestedAt: metav1.NowMicro()}
			return h
		}(),
		"an order": orderedHost(),
	} {
		t.Run(name, func(t *testing.T) {
			must(t, api.Create(t.Context(), h))
			for _, uid := range []types.UID{"u-1", "u-2", ""} {
				h.Spec.ClaimRef.UID = uid
				must(t, api.Update(t.Context(), h))
			}
		})
	}
}

// TestHandEditedHostsAreRefused: a slip of the hand neither swaps a claim nor
// makes a disk look clean.
func TestHandEditedHostsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		host *infrav1.ScalewayAppleSiliconHost
		edit func(*infrav1.ScalewayAppleSiliconHost)
		says string
	}{
		"a claim's token":     {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef.Token = "t-2" }, "never changed into another"},
		"a claim's owner":     {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef.Name = "m-2" }, "never changed into another"},
		"a claim's namespace": {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef.Namespace = "other" }, "never changed into another"},
		"a claim's cluster":   {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef.Cluster = "" }, "never changed into another"},
		"a claim's token and uid": {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.ClaimRef.Token, h.Spec.ClaimRef.UID = "t-2", "another"
		}, "never changed into another"},
		"requiredSince moves back": {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			before := metav1.NewMicroTime(h.Spec.Record.Wipe.RequiredSince.Add(-time.Microsecond))
			h.Spec.Record.Wipe.RequiredSince = &before
		}, "remembers that the disk was owned"},
		"requiredSince goes": {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Record.Wipe.RequiredSince = nil }, "remembers that the disk was owned"},
		"the record goes":    {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Record = infrav1.HostRecord{} }, "remembers that the disk was owned"},
		"a server that becomes an order too": {newHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Order = &infrav1.OrderRequest{Name: "m-1", Type: "M2-L", Zone: "fr-par-1"}
		}, "set serverID or order"},
		"an order that becomes a server": {orderedHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Order, h.Spec.ServerID = nil, uuid.NewString()
		}, "never change"},
		"a release with another token": {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Release = &infrav1.Release{Token: "t-2", Policy: infrav1.Terminate, RequestedAt: metav1.NowMicro()}
		}, "token of the claim"},
		"a Recycle without a prefix": {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Release = &infrav1.Release{Token: "t-1", Policy: infrav1.Recycle, RequestedAt: metav1.NowMicro()}
		}, "names its poolPrefix"},
		"a Detach as a release": {claimedHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Release = &infrav1.Release{Token: "t-1", Policy: infrav1.Detach, RequestedAt: metav1.NowMicro()}
		}, "spec.release.policy"},
		"a prefix that all names match": {newHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: "-"}
		}, "spec.adopt.poolPrefix"},
		"a quarantine without a reason": {newHost(), func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Quarantine = &infrav1.Quarantine{}
		}, "spec.quarantine.reason"},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, api.Create(t.Context(), c.host))
			c.edit(c.host)
			err := api.Update(t.Context(), c.host)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a refusal that says %q", err, c.says)
			}
		})
	}
}

// TestAHostIsAServerOrAnOrder from the beginning on.
func TestAHostIsAServerOrAnOrder(t *testing.T) {
	neither, both := newHost(), orderedHost()
	neither.Spec.ServerID, both.Spec.ServerID = "", uuid.NewString()
	for name, h := range map[string]*infrav1.ScalewayAppleSiliconHost{"neither": neither, "both": both} {
		if err := api.Create(t.Context(), h); err == nil || !strings.Contains(err.Error(), "set serverID or order") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestALifeOfAHostIsAccepted: the rules refuse none of the writes that make one up.
func TestALifeOfAHostIsAccepted(t *testing.T) {
	must(t, api.Create(t.Context(), orderedHost()))
	now := time.Now()
	for name, steps := range map[string][]func(*infrav1.ScalewayAppleSiliconHost){
		"recycled": {
			released(infrav1.Recycle),
			func(h *infrav1.ScalewayAppleSiliconHost) { host.RecordWipe(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) { host.RecordWipeStart(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) { host.RecordRepeat(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) {
				host.RecordWipeAbandoned(h, infrav1.ReasonWipeTimedOut, now)
			},
			func(h *infrav1.ScalewayAppleSiliconHost) { host.RecordWipeStart(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) { host.RecordWiped(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) { host.Finish(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) {
				host.Claim(h, infrav1.ClaimReference{Namespace: "default", Name: "m-2", Token: "t-2"}, now)
			},
		},
		"reinstalled": {
			released(infrav1.Reinstall),
			func(h *infrav1.ScalewayAppleSiliconHost) { host.RecordWipe(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) { host.RecordWiped(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) { host.Finish(h, now) },
		},
		"terminated": {released(infrav1.Terminate), func(h *infrav1.ScalewayAppleSiliconHost) { host.Free(h) }},
		"detached, then adopted": {
			func(h *infrav1.ScalewayAppleSiliconHost) { host.Detach(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: "tuist-pool-"} },
			func(h *infrav1.ScalewayAppleSiliconHost) {
				h.Status.Server.Name = "jane-test"
				host.Adopt(h, "t-3", now)
			},
		},
		"detached, then trusted": {
			func(h *infrav1.ScalewayAppleSiliconHost) { host.Detach(h, now) },
			func(h *infrav1.ScalewayAppleSiliconHost) { host.Trust(h, now) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := claimedHost()
			must(t, api.Create(t.Context(), h))
			for n, step := range steps {
				step(h)
				if err := api.Update(t.Context(), h); err != nil {
					t.Fatalf("step %d: %v", n, err)
				}
			}
		})
	}
}

func released(policy infrav1.ReleasePolicy) func(*infrav1.ScalewayAppleSiliconHost) {
	return func(h *infrav1.ScalewayAppleSiliconHost) {
		h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: policy, RequestedAt: metav1.NowMicro()}
		if policy == infrav1.Recycle {
			h.Spec.Release.PoolPrefix = "tuist-pool-"
		}
	}
}
