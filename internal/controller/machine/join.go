package machine

import (
	"context"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/job"
	"github.com/macfleet/macfleet/internal/machine"
	"github.com/macfleet/macfleet/internal/push"
)

// joinPhase follows the Machine's Node.
type joinPhase struct {
	clock  clock.PassiveClock
	nodes  *nodes
	pushes *job.Pool
	tokens *push.Tokens
}

// run says what has become of the Machine's Node, and ends the bootstrap token
// once the Node is Ready.
func (p *joinPhase) run(ctx context.Context, v *visit) (ctrl.Result, error) {
	if v.Machine.Spec.ProviderID == "" || v.Host == nil {
		v.joined = machine.Unknown(infrav1.ReasonWaitingForNode, "the Mac is not converged yet")
		return ctrl.Result{}, nil
	}
	pushed := p.pushes.Running(client.ObjectKeyFromObject(v.Machine))
	if err := p.nodes.findNode(ctx, v, pushed); err != nil {
		return ctrl.Result{}, err
	}
	v.joined = machine.JudgeNode(v.Snapshot)
	if pushed {
		return ctrl.Result{}, nil // its token is its own, until it says what the Mac holds
	}
	if v.joined.Reason == infrav1.NodeReadyCondition && v.KeptByUs() && (v.secret.TokenID != "" || v.Host.Spec.Record.Bootstrap.TokenID != "") {
		return ctrl.Result{}, p.tokens.End(ctx, client.ObjectKeyFromObject(v.Machine), hostclaim.RefOf(v.Machine))
	}
	return p.tokenDue(v), nil
}

// tokenDue says when the Mac may need another token: once the one it holds has ended,
// or once its Node was not Ready for too long. Nothing else would wake us then.
func (p *joinPhase) tokenDue(v *visit) ctrl.Result {
	now := p.clock.Now()
	since, unready := v.UnreadySince()
	switch {
	case v.Node != nil && !unready:
		return ctrl.Result{}
	case v.secret.Joinable(now):
		return after(now, v.secret.TokenExpires)
	case unready && now.Before(since.Add(machine.SilentLimit)):
		return after(now, since.Add(machine.SilentLimit))
	}
	return ctrl.Result{}
}
