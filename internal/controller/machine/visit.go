package machine

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/fleetsecret"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/requeue"
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

// fleetOf is the Machine's fleet, as its Secrets know it.
func (v *visit) fleetOf() fleetsecret.Fleet {
	return fleetsecret.Fleet{Namespace: v.Machine.Namespace, Name: v.Fleet(), Cluster: machine.ClusterName(v.Machine)}
}

// after asks to come back at an instant, or now when it has passed.
func after(now, then time.Time) ctrl.Result {
	return ctrl.Result{RequeueAfter: max(then.Sub(now), time.Millisecond)}
}

// soon comes back after what was found is written down.
func soon() ctrl.Result { return ctrl.Result{RequeueAfter: time.Millisecond} }

// lostRace: another manager placed the order; look again, as at any lost race.
func lostRace(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return requeue.ErrStale
	}
	return err
}

// waitPoll is how often a Machine that waits looks why, at least: waitPeriod has how often
// one does that waits for a host of the pool. A host that becomes free wakes it; one that is
// taken, quarantined or gone does not, and what the condition says would be an old story. It
// reads the cache, and asks the vendor nothing.
const waitPoll = time.Minute
