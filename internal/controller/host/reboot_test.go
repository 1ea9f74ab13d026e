package host

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// askReboot does what the ladder, a remediation or a person does.
func (w *world) askReboot(id string, force bool) {
	w.t.Helper()
	h := w.host()
	h.Spec.Reboot = &infrav1.RebootRequest{ID: id, Reason: "ssh does not answer", Force: force}
	w.must(w.client.Update(w.ctx, h))
}

func (w *world) takeRebootBack() {
	w.t.Helper()
	h := w.host()
	h.Spec.Reboot = nil
	w.must(w.client.Update(w.ctx, h))
}

// rebootAsked is a world whose ladder has asked for the one reboot of its claim, at
// a vendor that diagnoses nothing.
func rebootAsked(t *testing.T) *world {
	t.Helper()
	w := inUse(t)
	w.undiagnosed(nil)
	w.askReboot(host.BootstrapRebootID("t-1"), true)
	return w
}

// undiagnosed makes a vendor without diagnostics, whose other calls fail as told.
func (w *world) undiagnosed(fault func(cloudtest.Call) error) {
	w.cloud.Fault = func(c cloudtest.Call) (error, error) {
		if c.Name == "StartDiagnostic" {
			return cloudtest.Err(cloud.KindForbidden), nil
		}
		if fault != nil {
			return fault(c), nil
		}
		return nil, nil
	}
}

func fails(name string, kind cloud.Kind) func(cloudtest.Call) error {
	return func(c cloudtest.Call) error {
		if c.Name == name {
			return cloudtest.Err(kind)
		}
		return nil
	}
}

func (w *world) taken1() bool {
	h := w.host()
	return h.Spec.Reboot == nil && h.Status.LastReboot.ID != ""
}

func TestRequirement003_RebootServer(t *testing.T) {
	t.Run("HappyPathRecordsCall", func(t *testing.T) {
		w := rebootAsked(t)
		registry := prometheus.NewRegistry()
		var err error
		w.r.metrics, err = newMetrics(registry)
		w.must(err)
		w.until("taken", w.taken1)
		h := w.host()
		if h.Status.LastReboot.ID != host.BootstrapRebootID("t-1") || !h.Spec.Record.Bootstrap.RebootIssued || h.Status.LastReboot.At.IsZero() {
			t.Errorf("got %+v, %+v", h.Status.LastReboot, h.Spec.Record.Bootstrap)
		}
		if w.calls("RebootServer") != 1 || w.reason(host.RebootedCondition) != host.ReasonRebootTaken {
			t.Errorf("calls %v", w.cloud.Calls())
		}
		if n := testutil.ToFloat64(w.r.metrics.reboots); n != 1 {
			t.Errorf("%v reboots counted", n)
		}
	})
	for name, kind := range map[string]cloud.Kind{"SwallowsNotFound": cloud.KindNotFound, "SwallowsTransientState": cloud.KindTransient} {
		t.Run(name, func(t *testing.T) {
			w := rebootAsked(t)
			w.undiagnosed(fails("RebootServer", kind))
			w.until("taken", w.taken1)
			if n := w.calls("RebootServer"); n != 1 || !w.host().Spec.Record.Bootstrap.RebootIssued {
				t.Errorf("%d calls, %+v", n, w.host().Spec.Record.Bootstrap)
			}
		})
	}
}

func TestRequirement003_RebootAPIErrorDoesNotConsumeOneShot(t *testing.T) {
	for _, call := range []string{"RebootServer", "GetServer"} {
		t.Run(call, func(t *testing.T) {
			w := rebootAsked(t)
			w.undiagnosed(fails(call, cloud.KindUnavailable))
			for range 3 {
				if err := w.step(); !cloud.IsUnavailable(err) {
					t.Fatalf("got %v", err)
				}
			}
			h := w.host()
			if h.Spec.Reboot == nil || h.Spec.Record.Bootstrap.RebootIssued || h.Status.LastReboot.ID != "" {
				t.Fatalf("consumed: %+v", h.Spec)
			}
			w.undiagnosed(nil)
			w.until("taken", w.taken1)
			if !w.host().Spec.Record.Bootstrap.RebootIssued {
				t.Error("not recorded")
			}
		})
	}
}

// A crash between the vendor's answer and its record costs a second power cut: a
// record that came first could cost the only one.
func TestACrashAroundARebootCutsThePowerTwiceAtMost(t *testing.T) {
	for n := range 6 {
		for _, late := range []bool{false, true} {
			w := rebootAsked(t)
			writes, done := 0, false
			boom := errors.New("killed")
			w.writeFault = func(int) (error, error) {
				writes++
				if done || writes-1 != n {
					return nil, nil
				}
				done, w.killed = true, true
				if late {
					return nil, boom
				}
				return boom, nil
			}
			w.until("taken", w.taken1)
			cuts := 0
			for _, c := range w.cloud.Calls() {
				if c.Name == "RebootServer" {
					cuts++
				}
			}
			server, _ := w.cloud.Server(serverID)
			if server.Status != cloud.StatusRebooting || cuts > 2 {
				t.Errorf("write %d, late %v: %d calls, server %s", n, late, cuts, server.Status)
			}
		}
	}
}

func TestARebootIsDropped(t *testing.T) {
	t.Run("when the host is released", func(t *testing.T) {
		w := rebootAsked(t)
		w.release()
		for range 3 {
			_ = w.step()
		}
		if w.host().Spec.Reboot != nil || w.calls("RebootServer") != 0 || w.reason(host.RebootedCondition) != host.ReasonRebootDropped {
			t.Errorf("reboot %+v, calls %v", w.host().Spec.Reboot, w.cloud.Calls())
		}
		if w.host().Spec.Record.Bootstrap.RebootIssued {
			t.Error("a dropped request counts as made")
		}
	})
	t.Run("not by a change right before the call", func(t *testing.T) {
		w := rebootAsked(t)
		w.cloud.OnCall = func(c cloudtest.Call) {
			if c.Name == "GetServer" && w.host().Spec.Release == nil {
				w.release()
			}
		}
		for range 3 {
			_ = w.step()
		}
		if n := w.calls("RebootServer"); n != 0 {
			t.Errorf("%d calls after the release", n)
		}
	})
}

func TestARebootWaits(t *testing.T) {
	node := func(ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "m-1"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}
	}
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "job"}, Spec: corev1.PodSpec{NodeName: "m-1"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
		if change != nil {
			change(p)
		}
		return p
	}
	yes := true
	for _, c := range []struct {
		name    string
		force   bool
		arrange func(*world)
		taken   bool
	}{
		{"for Pods on a Ready Node", false, func(w *world) { w.put(node(corev1.ConditionTrue), pod(nil)) }, false},
		{"not for Pods by force", true, func(w *world) { w.put(node(corev1.ConditionTrue), pod(nil)) }, true},
		{"not for Pods on a Node that is not Ready", false, func(w *world) { w.put(node(corev1.ConditionFalse), pod(nil)) }, true},
		{"not for Pods that ended", false, func(w *world) {
			w.put(node(corev1.ConditionTrue), pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
		}, true},
		{"not for mirror Pods", false, func(w *world) {
			w.put(node(corev1.ConditionTrue), pod(func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }))
		}, true},
		{"not for DaemonSets", false, func(w *world) {
			w.put(node(corev1.ConditionTrue), pod(func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: &yes}}
			}))
		}, true},
		{"not for Pods of other Nodes", false, func(w *world) {
			w.put(node(corev1.ConditionTrue), pod(func(p *corev1.Pod) { p.Spec.NodeName = "m-2" }))
		}, true},
		{"in maintenance", false, func(w *world) {
			h := w.host()
			h.Spec.Maintenance = &infrav1.Maintenance{}
			w.must(w.client.Update(w.ctx, h))
		}, false},
		{"while the server reinstalls", true, func(w *world) {
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = cloud.StatusReinstalling })
		}, false},
		{"while it bears another's name", true, func(w *world) {
			w.cloud.OnCall = func(c cloudtest.Call) {
				if c.Name == "ListServers" { // after the inventory saw the owner's
					w.cloud.Change(serverID, func(s *cloud.Server) { s.Name = "acme-1" })
				}
			}
		}, false},
		{"while the vendor holds it locked", true, func(w *world) {
			w.cloud.Change(serverID, func(s *cloud.Server) { s.Status = "locked" })
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := inUse(t)
			w.undiagnosed(nil)
			c.arrange(w)
			w.askReboot("r-1", c.force)
			for range 4 {
				w.must(w.step())
			}
			if w.taken1() != c.taken || (w.calls("RebootServer") == 1) != c.taken {
				t.Errorf("taken %v, calls %v", w.taken1(), w.cloud.Calls())
			}
			if c.taken {
				return
			}
			if got := w.reason(host.RebootedCondition); got != host.ReasonRebootWaiting {
				t.Errorf("reason %s", got)
			}
			w.takeRebootBack()
			w.steps(1)
			if got := w.reason(host.RebootedCondition); got != "" {
				t.Errorf("taken back, and its condition says %s", got)
			}
		})
	}
}

func (w *world) put(objects ...client.Object) {
	w.t.Helper()
	for _, o := range objects {
		w.must(w.client.Create(w.ctx, o))
	}
}

// A Node may be back, with its Pods, while the vendor is asked.
func TestANodeThatComesBackMeanwhileKeepsItsPods(t *testing.T) {
	w := inUse(t)
	read := false
	w.undiagnosed(func(c cloudtest.Call) error {
		if c.Name == "GetServer" && !read {
			read = true
			w.put(&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "m-1"}, Spec: corev1.NodeSpec{ProviderID: host.ProviderID(zone, serverID)},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
			}, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "job"}, Spec: corev1.PodSpec{NodeName: "m-1"},
				Status: corev1.PodStatus{Phase: corev1.PodRunning},
			})
		}
		return nil
	})
	w.askReboot("r-1", false)
	for range 4 {
		w.must(w.step())
	}
	if !read || w.calls("RebootServer") != 0 {
		t.Errorf("read %t, calls %v", read, w.cloud.Calls())
	}
}

func TestTheVendorIsAskedForAdviceBeforeAReboot(t *testing.T) {
	reachable := func(w *world) *metav1.Condition {
		return meta.FindStatusCondition(w.host().Status.Conditions, infrav1.ReachableCondition)
	}
	t.Run("and its advice is kept", func(t *testing.T) {
		w := inUse(t)
		w.askReboot("r-1", true)
		w.must(w.step())
		if w.calls("RebootServer") != 0 || w.calls("StartDiagnostic") != 1 {
			t.Fatalf("calls %v", w.cloud.Calls())
		}
		w.cloud.Diagnostic = cloud.Diagnostic{Done: true, Advice: []string{"reboot_server"}, Message: "no route"}
		w.until("taken", w.taken1)
		if c := reachable(w); c == nil || c.Status != metav1.ConditionFalse || c.Reason != "RebootServer" || !strings.Contains(c.Message, "no route") {
			t.Errorf("got %+v", c)
		}
		if w.calls("StartDiagnostic") != 1 {
			t.Errorf("calls %v", w.cloud.Calls())
		}
	})
	t.Run("but not for longer than a minute", func(t *testing.T) {
		w := inUse(t)
		w.askReboot("r-1", true)
		asked := w.clock.Now()
		for range 60 {
			_, err := w.reconcile()
			w.must(err)
			if w.taken1() {
				break
			}
			w.clock.Step(diagnosePoll)
		}
		if waited := w.clock.Since(asked); waited < host.DiagnoseFor || waited > host.DiagnoseFor+30*time.Second {
			t.Errorf("waited %s", waited)
		}
		if c := reachable(w); c == nil || c.Status != metav1.ConditionUnknown {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("and a vendor without an answer holds nothing up", func(t *testing.T) {
		for _, call := range []string{"StartDiagnostic", "GetDiagnostic"} {
			w := inUse(t)
			w.cloud.Fault = func(c cloudtest.Call) (error, error) {
				if c.Name == call {
					return cloudtest.Err(cloud.KindForbidden), nil
				}
				return nil, nil
			}
			w.askReboot("r-1", true)
			w.until("taken", w.taken1)
			if c := reachable(w); c == nil || c.Reason != "NoAnswer" {
				t.Errorf("%s: got %+v", call, c)
			}
		}
	})
	t.Run("and each request anew, at no cost at rest", func(t *testing.T) {
		w := inUse(t)
		w.cloud.Diagnostic = cloud.Diagnostic{Done: true, Healthy: true}
		for _, id := range []string{"r-1", "r-2"} {
			w.askReboot(id, true)
			w.until("taken", func() bool { return w.host().Status.LastReboot.ID == id && w.host().Spec.Reboot == nil })
			w.cloud.Finish(serverID)
			w.must(w.step())
		}
		if n := w.calls("StartDiagnostic"); n != 2 {
			t.Errorf("%d diagnostics", n)
		}
		w.cloud.Forget()
		for range 3 {
			w.must(w.step())
		}
		if w.calls("StartDiagnostic")+w.calls("GetDiagnostic")+w.calls("RebootServer") != 0 {
			t.Errorf("calls at rest %v", w.cloud.Calls())
		}
	})
}
