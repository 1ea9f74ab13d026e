package machine

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/push"
)

// refuse has the API server take no write that is picked, as an admission webhook does.
func (w *world) refuse(picks func(verb string, object client.Object) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = func(verb string, object client.Object) error {
		if picks(verb, object) {
			return errPlain
		}
		return nil
	}
}

func (w *world) refuseNothing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = noFault
}

// onHost picks updates of the Host after which its record is so.
func onHost(is func(record infrav1.HostRecord) bool) func(string, client.Object) bool {
	return func(verb string, object client.Object) bool {
		h, of := object.(*host.Host)
		return of && verb == "update" && is(h.Spec.Record)
	}
}

// inSecret picks patches of mac-1-bootstrap, from the n-th on.
func inSecret(n int) func(string, client.Object) bool {
	seen := 0
	return func(verb string, object client.Object) bool {
		if verb != "patch" || object.GetName() != "mac-1-bootstrap" {
			return false
		}
		seen++
		return seen >= n
	}
}

// What the API server refuses of a push says nothing of the Mac: it counts no attempt, or
// one webhook would have a fleet rebooted and wiped.
func TestAWriteThatIsRefusedInAPushCostsTheMacNothing(t *testing.T) {
	for name, c := range map[string]struct {
		step    string
		refused func(verb string, object client.Object) bool
	}{
		"the host key":       {push.StepDial, onHost(func(r infrav1.HostRecord) bool { return r.HostKey != nil })},
		"its mirror":         {push.StepDial, inSecret(1)},
		"the hardware":       {push.StepProbe, onHost(func(r infrav1.HostRecord) bool { return r.Hardware != nil })},
		"its own mirror":     {push.StepProbe, inSecret(2)},
		"the password":       {push.StepGrant, onHost(func(r infrav1.HostRecord) bool { return len(r.PasswordAttempts) > 0 })},
		"the mirror of that": {push.StepGrant, inSecret(3)},
		"the token's id":     {push.StepJoin, inSecret(4)},
		"its binding":        {push.StepJoin, onHost(func(r infrav1.HostRecord) bool { return r.Bootstrap.TokenID != "" })},
		"the token": {push.StepJoin, func(verb string, object client.Object) bool {
			_, secret := object.(*corev1.Secret)
			return secret && verb == "create" && object.GetNamespace() == metav1.NamespaceSystem
		}},
		"its delivery": {push.StepJoin, inSecret(5)},
	} {
		t.Run(name, func(t *testing.T) {
			w := claimed(t)
			w.r.RebootAfter, w.r.MaxAttempts = 1, 1
			w.r.wire()
			w.mac.facts.Serial = "C07"
			w.refuse(c.refused)
			result := w.settle("mac-1")
			if result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
				t.Errorf("tries again after %s", result.RequeueAfter)
			}
			last := w.machine("mac-1").Status.Bootstrap.LastError
			if last == nil || last.Step != c.step || last.Class != string(document.Wait) {
				t.Errorf("last error = %+v, want step %s", last, c.step)
			}
			if said := w.condition(infrav1.BootstrappedCondition).Message; !strings.Contains(said, errPlain.Error()) || !strings.Contains(said, "admission webhooks") {
				t.Errorf("Bootstrapped says %q, want what failed and where to look", said)
			}
			w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
			result = w.settle("mac-1")
			h := w.host(hostName)
			if h.Spec.Record.Bootstrap.Attempts != 0 || h.Spec.Reboot != nil || h.Spec.Release != nil || len(w.mac.dials) != 2 {
				t.Errorf("bootstrap = %+v, reboot = %+v, release = %+v after %d pushes; want nothing on the Mac's account", h.Spec.Record.Bootstrap, h.Spec.Reboot, h.Spec.Release, len(w.mac.dials))
			}
			w.refuseNothing()
			w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
			w.settle("mac-1")
			if m := w.machine("mac-1"); m.Spec.ProviderID == "" || len(w.mac.passwords) != 1 {
				t.Errorf("providerID = %q, %d passwords sent once writes work again", m.Spec.ProviderID, len(w.mac.passwords))
			}
		})
	}
}
