package host

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// diagnosePoll is how often a diagnostic of the vendor is looked at.
const diagnosePoll = 5 * time.Second

// diagnosed asks the vendor what is wrong with the way to the server, before its
// power is cut, and puts the answer on the host. It reports that there is nothing
// to wait for: an answer, none within a minute, or a vendor that does not diagnose.
func (p *pass) diagnosed(ctx context.Context) bool {
	d := p.diagnoses.of(p.host)
	switch {
	case d.done:
		return true
	case d.id == "":
		return p.startDiagnosis(ctx)
	case p.Clock.Since(d.began) >= host.DiagnoseFor:
		return p.diagnosis(ctx, host.Undiagnosed("the vendor's diagnostic did not end within a minute"))
	}
	found, err := p.Cloud.GetDiagnostic(ctx, p.host.Spec.Zone, d.id)
	switch {
	case err != nil && (cloud.IsThrottled(err) || cloud.IsUnavailable(err)):
		return false // the minute bounds it
	case err != nil:
		return p.diagnosis(ctx, host.Undiagnosed(host.Refused(refusal(err))))
	case !found.Done:
		return false
	}
	return p.diagnosis(ctx, host.Reachable(found))
}

func (p *pass) startDiagnosis(ctx context.Context) bool {
	id, err := p.Cloud.StartDiagnostic(ctx, p.host.Spec.Zone, p.host.Spec.ServerID)
	if err != nil {
		return p.diagnosis(ctx, host.Undiagnosed(host.Refused(refusal(err))))
	}
	p.diagnoses.put(p.host, diagnosis{id: id, began: p.Clock.Now()})
	return false
}

// diagnosis puts what came out on the host, and ends the waiting.
func (p *pass) diagnosis(ctx context.Context, c metav1.Condition) bool {
	p.condition(c.Type, c.Status, c.Reason, c.Message)
	p.diagnoses.put(p.host, diagnosis{done: true})
	ctrl.LoggerFrom(ctx).Info("Diagnosed the way to the server", "reachable", c.Status, "reason", c.Reason, "message", c.Message)
	return true
}

// diagnoses are those for which a reboot waits. They are lost with the process:
// then the vendor is asked once more.
type diagnoses struct {
	mu    sync.Mutex
	hosts map[types.UID]diagnosis
}

// diagnosis is one for one request.
type diagnosis struct {
	request string
	id      string
	began   time.Time
	done    bool
}

// of is the diagnosis for the host's present request; a zero one: none was begun.
func (d *diagnoses) of(h *host.Host) diagnosis {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.hosts[h.UID]; known.request == h.Spec.Reboot.ID {
		return known
	}
	return diagnosis{}
}

func (d *diagnoses) put(h *host.Host, known diagnosis) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hosts == nil {
		d.hosts = map[types.UID]diagnosis{}
	}
	known.request = h.Spec.Reboot.ID
	d.hosts[h.UID] = known
}

func (d *diagnoses) forget(h *host.Host) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.hosts, h.UID)
}
