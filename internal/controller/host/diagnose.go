package host

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/memo"
)

// diagnosePoll is how often a diagnostic of the vendor is looked at.
const diagnosePoll = 5 * time.Second

// diagnosing is what a reboot waits for. The memory is lost with the process: then the
// vendor is asked once more.
type diagnosing struct {
	*vendor
	known *memo.Memo[types.UID, diagnostic]
}

// done asks the vendor what is wrong with the way to the server, before its
// power is cut, and puts the answer on the host. It reports that there is nothing
// to wait for: an answer, none within a minute, or a vendor that does not diagnose.
func (p *diagnosing) done(ctx context.Context) bool {
	d := p.current()
	switch {
	case d.done:
		return true
	case d.id == "":
		return p.start(ctx)
	case p.now().Sub(d.began) >= host.DiagnoseFor:
		return p.finish(ctx, host.Undiagnosed("the vendor's diagnostic did not end within a minute"))
	}
	found, err := p.Cloud.GetDiagnostic(ctx, p.host.Spec.Zone, d.id)
	switch {
	case err != nil && (cloud.IsThrottled(err) || cloud.IsUnavailable(err)):
		return false // the minute bounds it
	case err != nil:
		return p.finish(ctx, host.Undiagnosed(host.Refused(cloud.Said(err))))
	case !found.Done:
		return false
	}
	return p.finish(ctx, host.Reachable(found))
}

func (p *diagnosing) start(ctx context.Context) bool {
	id, err := p.Cloud.StartDiagnostic(ctx, p.host.Spec.Zone, p.host.Spec.ServerID)
	if err != nil {
		return p.finish(ctx, host.Undiagnosed(host.Refused(cloud.Said(err))))
	}
	p.known.Set(p.host.UID, diagnostic{request: p.host.Spec.Reboot.ID, id: id, began: p.now()})
	return false
}

// finish puts what came out on the host, and ends the waiting.
func (p *diagnosing) finish(ctx context.Context, c metav1.Condition) bool {
	p.condition(c.Type, c.Status, c.Reason, c.Message)
	p.known.Set(p.host.UID, diagnostic{request: p.host.Spec.Reboot.ID, done: true})
	ctrl.LoggerFrom(ctx).Info("Diagnosed the way to the server", "reachable", c.Status, "reason", c.Reason, "message", c.Message)
	return true
}

// diagnostic is one for one request; a zero one was not begun.
type diagnostic struct {
	request string
	id      string
	began   time.Time
	done    bool
}

// current is the diagnostic for the host's present request.
func (p *diagnosing) current() diagnostic {
	if known := p.known.Get(p.host.UID); known.request == p.host.Spec.Reboot.ID {
		return known
	}
	return diagnostic{}
}
