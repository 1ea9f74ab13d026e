package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/machine"
)

// An alert finds what waits, why, and for how long.
func TestWhatWaitsIsCounted(t *testing.T) {
	w := newWorld(t, append(append(pair("mac-1"), pair("mac-2")...), poolHost(serverID))...)
	w.running("mac-1")
	series := []string{"macfleet_machines_not_ready", "macfleet_machines_longest_wait_seconds"}
	want := func(text string) {
		t.Helper()
		if err := testutil.CollectAndCompare(newMachineCollector(w.client, w.clock), strings.NewReader(text), series...); err != nil {
			t.Error(err)
		}
	}
	m := w.machine("mac-2")
	m.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonNoAvailableHost, LastTransitionTime: metav1.Time{Time: w.clock.Now().Add(-90 * time.Second)}}}
	fleet := machine.Snapshot{Machine: m}.Fleet()
	pending := `# HELP macfleet_machines_longest_wait_seconds For how long the Machine that waits longest has not been Ready or, in phase Releasing, has been deleted; by fleet and phase.
# TYPE macfleet_machines_longest_wait_seconds gauge
macfleet_machines_longest_wait_seconds{fleet="` + fleet + `",phase="Pending"} 90
# HELP macfleet_machines_not_ready Machines that are not Ready, by fleet and the reason of the condition Ready.
# TYPE macfleet_machines_not_ready gauge
macfleet_machines_not_ready{fleet="` + fleet + `",reason="NoAvailableHost"} 1
`
	for _, m.Status.Phase = range []string{"Pending", ""} { // one that is new, or from a backup, has none
		w.updateStatus(m)
		want(pending)
	}
}

// Core drains the Node of a Machine before it deletes the infra machine, which is Ready all the while.
func TestADrainThatWaitsIsCounted(t *testing.T) {
	w := runningWorld(t)
	core := &clusterv1.Machine{}
	w.get(client.ObjectKey{Namespace: namespace, Name: "mac-1"}, core)
	core.Finalizers = []string{clusterv1.MachineFinalizer}
	w.update(core)
	w.delete(core)
	w.get(client.ObjectKeyFromObject(core), core)
	w.clock.SetTime(core.DeletionTimestamp.Add(90 * time.Minute))
	want := `# HELP macfleet_machines_longest_wait_seconds For how long the Machine that waits longest has not been Ready or, in phase Releasing, has been deleted; by fleet and phase.
# TYPE macfleet_machines_longest_wait_seconds gauge
macfleet_machines_longest_wait_seconds{fleet="` + machine.Snapshot{Machine: w.machine("mac-1")}.Fleet() + `",phase="Releasing"} 5400
`
	if err := testutil.CollectAndCompare(newMachineCollector(w.client, w.clock), strings.NewReader(want), "macfleet_machines_longest_wait_seconds"); err != nil {
		t.Error(err)
	}
}

func TestWaitedFor(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) metav1.Time { return metav1.Time{Time: now.Add(-d)} }
	for name, c := range map[string]struct {
		ready   metav1.ConditionStatus
		deleted bool
		want    time.Duration
	}{
		"new":               {"", false, time.Hour},
		"not Ready":         {metav1.ConditionFalse, false, time.Minute},
		"not known":         {metav1.ConditionUnknown, false, time.Minute},
		"Ready":             {metav1.ConditionTrue, false, 0},
		"Ready and deleted": {metav1.ConditionTrue, true, time.Second},
	} {
		m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: ago(time.Hour)}}
		if c.ready != "" {
			m.Status.Conditions = []metav1.Condition{{Type: infrav1.ReadyCondition, Status: c.ready, LastTransitionTime: ago(time.Minute)}}
		}
		if c.deleted {
			at := ago(time.Second)
			m.DeletionTimestamp = &at
		}
		if got := waitedFor(m, now); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
