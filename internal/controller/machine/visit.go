package machine

import (
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
)

// visit is one look at one Machine. Phases read the snapshot and what other phases
// learned, and put what they find into the outcome; a phase that writes the Machine or
// its Host leaves the newer version in the snapshot. The status follows from the outcome
// once, at the end, and nowhere else.
type visit struct {
	machine.Snapshot
	outcome

	// secret is what <machine>-bootstrap holds.
	secret bootstrapsecret.Content
	// nodeRead says that Node was looked for.
	nodeRead bool
	// untouchable: the host is ours, but its Mac is not to be touched: it is released,
	// or its server is gone.
	untouchable bool
	// proof of what became of the server of a missing Host.
	proof machine.Proof
	// poll is when to look again for what no watch tells; zero: never.
	poll time.Duration
	// revision that the profile wants; empty until it is known.
	revision string
}

// outcome is what the phases found.
type outcome struct {
	claimed, bootstrapped, joined, upToDate, released, slots machine.Finding

	// applied is what a finished converge run has just proved.
	applied *infrav1.AppliedStatus
	// update and drift are what is new about changes after the first bootstrap.
	update *infrav1.UpdateStatus
	drift  *infrav1.DriftStatus
	// failure of the last push, while it stands.
	failure *push.Failure
	// consumed are the pools whose job has said all it had to say once the status
	// is written.
	consumed []*job.Pool
	// skipStatus: the finalizer is dropped, or the deletion waits for a move or a
	// pause, and no status is written.
	skipStatus bool
}

// claimOnHost is the Machine's claim, on the Host that carries it.
func (v *visit) claimOnHost() hostclaim.Ref {
	return hostclaim.Ref{Host: v.Host.Name, Claim: host.ClaimOf(v.Machine)}
}

// loadSnapshot reads what the phases need. Only the Machine itself must be there.
func (r *Reconciler) loadSnapshot(ctx context.Context, m *infrav1.ScalewayAppleSiliconMachine) (*visit, error) {
	v := &visit{Snapshot: machine.Snapshot{Machine: m}}
	var err error
	if v.Owner, err = util.GetOwnerMachine(ctx, r.Client, m.ObjectMeta); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the owning Machine: %w", err)
	}
	if name := machine.ClusterName(m); name != "" {
		v.Cluster, err = util.GetClusterByName(ctx, r.Client, m.Namespace, name)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Cluster %s: %w", name, err)
		}
	}
	if v.Cluster != nil {
		if v.Zones, err = r.clusterZones(ctx, v.Cluster); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// clusterZones returns the zones of the Cluster's infrastructure; a Cluster
// without ours has none, and its Machines name their zone.
func (r *Reconciler) clusterZones(ctx context.Context, cluster *clusterv1.Cluster) ([]string, error) {
	ref := cluster.Spec.InfrastructureRef
	if !ref.IsDefined() || ref.Kind != "ScalewayAppleSiliconCluster" {
		return nil, nil
	}
	infra := &infrav1.ScalewayAppleSiliconCluster{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}, infra)
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return infra.Spec.Zones, nil
}
