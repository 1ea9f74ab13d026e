package host

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
)

func TestARenameThatTimedOutIsReadAgain(t *testing.T) {
	for name, landed := range map[string]bool{"landed": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.untilPhase(infrav1.HostAvailable)
			failed := false
			w.cloud.Fault = func(call cloudtest.Call) (before, after error) {
				if call.Name != "RenameServer" || failed {
					return nil, nil
				}
				failed = true
				if landed {
					return nil, cloudtest.Err(cloud.KindUnavailable)
				}
				return cloudtest.Err(cloud.KindUnavailable), nil
			}
			w.claim("m-1", "t-1")
			w.cloud.Forget()
			w.untilPhase(infrav1.HostInUse)
			want := []string{"RenameServer m-1", "RenameServer m-1"}
			if landed {
				want = want[:1]
			}
			if diff := cmp.Diff(want, w.mutations()); diff != "" {
				t.Errorf("mutations (-want +got):\n%s", diff)
			}
		})
	}
}

// boundRenames notes how long each rename may take at most.
type boundRenames struct {
	cloud.Cloud
	within []time.Duration
}

func (c *boundRenames) RenameServer(ctx context.Context, zone, id, name string) error {
	within := time.Duration(math.MaxInt64)
	if deadline, bound := ctx.Deadline(); bound {
		within = time.Until(deadline)
	}
	c.within = append(c.within, within)
	return c.Cloud.RenameServer(ctx, zone, id, name)
}

// A name is read for good once a rename that timed out has landed, or never will.
func TestARenameIsBoundByItsDeadline(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	vendor := &boundRenames{Cloud: w.cloud}
	w.r.Cloud = vendor
	w.claim("m-1", "t-1")
	w.until("renamed", func() bool { return len(vendor.within) > 0 })
	if got := vendor.within[0]; got > renameDeadline {
		t.Errorf("a rename may take %s", got)
	}
}

func TestAPausedMachinesServerIsNotRenamed(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	w.claim("m-1", "t-1")
	m := w.owner()
	m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	w.must(w.client.Update(w.ctx, m))
	w.steps(4)
	if got := w.mutations(); len(got) != 0 || w.phase() != infrav1.HostClaimed {
		t.Errorf("phase %s, mutations %v", w.phase(), got)
	}
	m = w.owner()
	m.Annotations = nil
	w.must(w.client.Update(w.ctx, m))
	w.untilPhase(infrav1.HostInUse)
}

func TestNothingIsRenamedWithoutAFreshProofOfTheClaim(t *testing.T) {
	for name, meanwhile := range map[string]func(*world){
		"claimed by another": func(w *world) {
			h := w.host()
			h.Spec.ClaimRef.Token = "t-2"
			w.must(w.client.Update(w.ctx, h))
		},
		"released":          func(w *world) { w.release() },
		"Cluster is paused": func(w *world) { w.pause() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.untilPhase(infrav1.HostAvailable)
			w.claim("m-1", "t-1")
			w.cloud.Forget()
			done := false
			w.cloud.OnCall = func(call cloudtest.Call) {
				if call.Name == "GetServer" && !done {
					done = true
					meanwhile(w)
				}
			}
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if !done || len(w.mutations()) != 0 {
				t.Errorf("mutations %v", w.mutations())
			}
		})
	}
}
