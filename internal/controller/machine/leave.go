package machine

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// leaveTimeout bounds the Mac's farewell; the wipe does not depend on it.
const leaveTimeout = 15 * time.Second

// leave stops the agent on the Mac and takes its credentials away, best effort:
// done means that it worked, failed, or had its time.
func (r *Reconciler) leave(ctx context.Context, v *visit) (ctrl.Result, bool) {
	key := client.ObjectKeyFromObject(v.machine)
	r.checks.cancel(key) // it only looks
	if push, running := r.pushes.look(key); running && !push.done {
		r.pushes.cancel(key)
		v.released = no(infrav1.ReasonLeaving, "waiting for the push to host %s to stop", v.host.Name)
		return ctrl.Result{}, false
	}
	pin := v.host.Spec.Record.HostKey
	if pin == nil || pin.Epoch != v.host.Spec.Record.InstallEpoch || v.staged.address == "" {
		return ctrl.Result{}, true
	}
	current, begun := r.leaves.look(key)
	if begun && current.done {
		return ctrl.Result{}, true
	}
	deadline := current.began.Add(leaveTimeout)
	if begun && !r.Clock.Now().Before(deadline) {
		r.leaves.cancel(key)
		return ctrl.Result{}, true
	}
	if !begun {
		if err := r.beginLeave(ctx, v); err != nil {
			ctrl.LoggerFrom(ctx).Info("The Mac is not told to leave", "host", v.host.Name, "error", err.Error())
			return ctrl.Result{}, true
		}
		deadline = r.Clock.Now().Add(leaveTimeout)
	}
	v.released = no(infrav1.ReasonLeaving, "the agent on host %s is being stopped", v.host.Name)
	return after(r.Clock.Now(), deadline), false
}

func (r *Reconciler) beginLeave(ctx context.Context, v *visit) error {
	secret, err := r.readFleetKey(ctx, v.fleetSecret())
	if err != nil {
		return err
	}
	signing, err := r.readSigningKey(ctx, v.signingSecret())
	if err != nil {
		return err
	}
	target, signer := r.target(v, secret), signing.signer(identity(v), r.Clock.Now)
	log := ctrl.LoggerFrom(ctx).WithValues("host", v.host.Name)
	r.leaves.begin(client.ObjectKeyFromObject(v.machine), v.token(), func(ctx context.Context, say func(string)) error {
		say(infrav1.ReasonLeaving)
		err := r.farewell(ctx, target, signer)
		if err != nil {
			log.Info("The Mac did not leave cleanly; the wipe goes on without", "error", err.Error())
		}
		return err
	})
	return nil
}

func (r *Reconciler) farewell(ctx context.Context, target Target, signer *document.Signer) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	mac, err := r.Macs.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer mac.Close() //nolint:errcheck // nothing follows
	return mac.Leave(ctx, signer)
}
