package machine

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// intended has a Machine that means a host which does not exist.
func intended(t *testing.T, change func(w *world, m *infrav1.ScalewayAppleSiliconMachine)) *world {
	t.Helper()
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.report.Hosts = 0
	w.visit("mac-1")
	w.visit("mac-1")
	m := w.machine("mac-1")
	m.Spec.HostRef = &infrav1.HostReference{Name: host.ObjectName(zone, otherID), ClaimToken: "lost"}
	w.update(m)
	change(w, w.machine("mac-1"))
	return w
}

func held(w *world, m *infrav1.ScalewayAppleSiliconMachine) {
	m.Status.HostName, m.Status.ServerID = m.Spec.HostRef.Name, otherID
	w.updateStatus(m)
}

func stagedFor(token string) func(*world, *infrav1.ScalewayAppleSiliconMachine) {
	return func(w *world, _ *infrav1.ScalewayAppleSiliconMachine) {
		w.create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mac-1-bootstrap"},
			Data:       map[string][]byte{host.KeyClaimToken: []byte(token)},
		})
	}
}

// Nothing of a Host that never was holds the Machine; what it may have held does.
func TestAnIntentOnAMissingHost(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *infrav1.ScalewayAppleSiliconMachine)
		free   bool
	}{
		"never held":               {func(*world, *infrav1.ScalewayAppleSiliconMachine) {}, true},
		"staged for another claim": {stagedFor("older"), true},
		"held by its status":       {held, false},
		"staged":                   {stagedFor("lost"), false},
		"another Machine's order": {func(w *world, m *infrav1.ScalewayAppleSiliconMachine) {
			held(w, m)
			m = w.machine("mac-1")
			m.Spec.HostRef.Name = host.OrderName("mac-2")
			w.update(m)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := intended(t, c.change)
			w.settle("mac-1")
			ref := w.machine("mac-1").Spec.HostRef
			if chosen := ref != nil && ref.Name == hostName && bears(w.host(hostName), ref.ClaimToken); chosen != c.free {
				t.Errorf("hostRef = %+v; chose again: %t, want %t", ref, chosen, c.free)
			}
		})
		t.Run(name+", deleted", func(t *testing.T) {
			w := intended(t, c.change)
			w.delete(w.machine("mac-1"))
			w.settle("mac-1")
			if w.machineGone("mac-1") != c.free {
				t.Errorf("gone = %t, want %t", w.machineGone("mac-1"), c.free)
			}
			if h := w.host(hostName); h.Spec.ClaimRef != nil || h.Spec.Release != nil {
				t.Errorf("spec = %+v, want another host untouched", h.Spec)
			}
		})
	}
}

// The inventory makes a Host for every server of a list: two lists without one
// prove that its server is gone, and nothing less does.
func TestAMissingHostIsForgottenWhenItsServerIsGone(t *testing.T) {
	at := func(after time.Duration) host.ZoneReport { return host.ZoneReport{Hosts: 1, At: start().Add(after)} }
	empty := func(after time.Duration) host.ZoneReport { return host.ZoneReport{At: start().Add(after)} }
	witnessed := func(after time.Duration) host.ZoneReport {
		return host.ZoneReport{At: start().Add(after), EmptyBelieved: true}
	}
	strange, failed, strangelyEmpty := at(40*time.Second), at(40*time.Second), witnessed(40*time.Second)
	strange.Suspicious, failed.Err, strangelyEmpty.Suspicious = true, errPlain, true
	for name, c := range map[string]struct {
		lists []host.ZoneReport
		gone  bool
	}{
		"two lists":         {[]host.ZoneReport{at(5 * time.Second), at(40 * time.Second)}, true},
		"one list":          {[]host.ZoneReport{at(40 * time.Second), at(40 * time.Second)}, false},
		"too close":         {[]host.ZoneReport{at(5 * time.Second), at(34 * time.Second)}, false},
		"one is older":      {[]host.ZoneReport{at(-time.Second), at(40 * time.Second)}, false},
		"one is suspicious": {[]host.ZoneReport{at(5 * time.Second), strange}, false},
		"one failed":        {[]host.ZoneReport{at(5 * time.Second), failed}, false},
		"one is empty":      {[]host.ZoneReport{at(5 * time.Second), empty(40 * time.Second)}, false},
		"all are empty":     {[]host.ZoneReport{empty(5 * time.Second), empty(time.Hour)}, false},
		"empty, witnessed":  {[]host.ZoneReport{witnessed(5 * time.Second), witnessed(40 * time.Second)}, true},
		"witnessed once":    {[]host.ZoneReport{empty(5 * time.Second), witnessed(40 * time.Second)}, false},
		"suspiciously so":   {[]host.ZoneReport{witnessed(5 * time.Second), strangelyEmpty}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := runningWorld(t)
			w.delete(w.host(hostName))
			w.deleteByCore()
			if result := w.settle("mac-1"); w.machineGone("mac-1") || result.RequeueAfter != absencePoll {
				t.Fatalf("gone = %t, comes back after %s", w.machineGone("mac-1"), result.RequeueAfter)
			}
			for _, report := range c.lists {
				w.report = report
				w.settleIfThere("mac-1")
			}
			if w.machineGone("mac-1") != c.gone {
				t.Fatalf("gone = %t, want %t", w.machineGone("mac-1"), c.gone)
			}
			if nodeGone := w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}); nodeGone != c.gone {
				t.Errorf("the Node is gone: %t, want %t", nodeGone, c.gone)
			}
		})
	}
}

// The last server of all was deleted, and then its Host: no list will ever prove it.
// The message says how the Machine goes all the same, and so it does.
func TestADeletionThatNoListWillEndSaysTheWayOut(t *testing.T) {
	w := runningWorld(t)
	w.delete(w.host(hostName))
	w.deleteByCore()
	w.settle("mac-1")
	list := func(after time.Duration, hosts int) string {
		w.report = host.ZoneReport{Hosts: hosts, At: start().Add(after)}
		w.settle("mac-1")
		if got := w.reason("mac-1", infrav1.ReleasedCondition); got != infrav1.ReasonReleaseBlocked {
			t.Fatalf("Released = %s", got)
		}
		return w.message("mac-1", infrav1.ReleasedCondition)
	}
	for _, c := range []struct {
		after time.Duration
		hosts int
		told  bool
	}{
		{time.Second, 0, false},
		{9 * time.Minute, 0, false},
		{9*time.Minute + time.Second, 1, false}, // a list that is not empty begins it anew
		{10 * time.Minute, 0, false},
		{20*time.Minute - time.Second, 0, false},
		{20 * time.Minute, 0, true},
	} {
		if got := list(c.after, c.hosts); strings.Contains(got, clusterv1.PausedAnnotation) != c.told || strings.Contains(got, "serverID") != c.told {
			t.Fatalf("after %s: %q, want the way out in it: %t", c.after, got, c.told)
		}
	}
	w.annotate(clusterv1.PausedAnnotation, "true")
	m := w.machine("mac-1")
	m.Status.ServerID = ""
	w.updateStatus(m)
	w.settle("mac-1")
	if !w.machineGone("mac-1") || !w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}) {
		t.Error("the way out leads nowhere")
	}
}

func (w *world) settleIfThere(name string) {
	w.t.Helper()
	if !w.machineGone(name) {
		w.settle(name)
	}
}

// A Host that came back and went again is missed anew.
func TestAHostThatCameBackIsMissedAnew(t *testing.T) {
	w := runningWorld(t)
	w.delete(w.host(hostName))
	m := w.machine("mac-1")
	m.Finalizers = append(m.Finalizers, "test/hold")
	w.update(m)
	w.delete(w.machine("mac-1"))
	w.settle("mac-1")
	w.report.At = start().Add(time.Second)
	w.settle("mac-1")
	// It comes back, not yet observed, and is lost again.
	w.create(&host.Host{ObjectMeta: metav1.ObjectMeta{Name: hostName}, Spec: infrav1.ScalewayAppleSiliconHostSpec{Zone: zone, ServerID: serverID}})
	w.settle("mac-1")
	w.delete(w.host(hostName))
	w.clock.SetTime(start().Add(time.Minute))
	w.report.At = w.clock.Now().Add(-time.Second)
	w.settle("mac-1")
	if got := w.reason("mac-1", infrav1.ReleasedCondition); got != infrav1.ReasonReleaseBlocked || !slices.Contains(w.machine("mac-1").Finalizers, infrav1.MachineFinalizer) {
		t.Errorf("Released = %s, finalizers = %q; want it to wait", got, w.machine("mac-1").Finalizers)
	}
}

func TestAnUnprovisionedMachineChoosesAgainWhenItsServerIsGone(t *testing.T) {
	w := intended(t, held)
	if result := w.settle("mac-1"); result.RequeueAfter != absencePoll {
		t.Fatalf("comes back after %s", result.RequeueAfter)
	}
	for _, after := range []time.Duration{time.Second, time.Minute} {
		w.report = host.ZoneReport{Hosts: 1, At: start().Add(after)}
		w.settle("mac-1")
	}
	if ref := w.machine("mac-1").Spec.HostRef; ref == nil || ref.Name != hostName {
		t.Errorf("hostRef = %+v, want the other host", ref)
	}
	if heard := strings.Join(w.heard(), "\n"); !strings.Contains(heard, "Normal Claimed") {
		t.Errorf("events = %s", heard)
	}
}
