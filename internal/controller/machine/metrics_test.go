package machine

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/push"
)

// A Mac names the steps that it reports, and may be hostile.
func TestAMacMakesNoSeriesWithoutEnd(t *testing.T) {
	m := newMetrics()
	for i := range 2 * maxSteps {
		name := fmt.Sprintf("mac/%d", i)
		m.step(name, -time.Second)
		m.failure(&push.Failure{Step: name, Class: document.Wait})
	}
	for _, step := range push.Steps() { // the manager's own are never among the others
		m.step(step, time.Second)
		m.failure(&push.Failure{Step: step, Class: document.Wait})
	}
	if n := histogram(t, m.steps.WithLabelValues(push.StepReboot).(prometheus.Histogram)).GetSampleCount(); n != 1 {
		t.Errorf("the manager's own step was counted %d times under its name, want once", n)
	}
	if n := testutil.CollectAndCount(m.steps); n != maxSteps+1 {
		t.Errorf("%d histograms of steps, want %d and one for the others", n, maxSteps)
	}
	if n := testutil.CollectAndCount(m.failures); n != maxSteps+1 {
		t.Errorf("%d series of failures, want %d and one for the others", n, maxSteps)
	}
	if sum := histogram(t, m.steps.WithLabelValues("other").(prometheus.Histogram)).GetSampleSum(); sum < 0 {
		t.Errorf("a sum of %v: it never falls", sum)
	}
}

func histogram(t *testing.T, of prometheus.Metric) *dto.Histogram {
	t.Helper()
	var read dto.Metric
	if err := of.Write(&read); err != nil {
		t.Fatal(err)
	}
	return read.GetHistogram()
}

// An increase is seen of a series that was there before.
func TestClaimsAreCountedFromZero(t *testing.T) {
	if n := testutil.CollectAndCount(newMetrics().claims); n != 5 {
		t.Errorf("%d results of claims before the first one, want all five", n)
	}
}

// A reboot of an old Machine's Mac takes two minutes, and not since the Machine's creation.
func TestANodeThatComesBackWasNotAwaitedSinceItsMachineWasMade(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	before := histogram(t, w.r.metrics.readiness)
	if before.GetSampleCount() != 1 {
		t.Fatalf("%d Nodes became Ready, want one", before.GetSampleCount())
	}
	w.clock.SetTime(w.clock.Now().Add(720 * time.Hour))
	w.report.At = w.clock.Now()
	w.nodeStatus("mac-1", corev1.ConditionUnknown)
	w.settle("mac-1")
	m := w.machine("mac-1") // whose conditions have the time of this machine
	meta.FindStatusCondition(m.Status.Conditions, infrav1.ReadyCondition).LastTransitionTime = metav1.NewTime(w.clock.Now())
	w.updateStatus(m)
	w.clock.SetTime(w.clock.Now().Add(2 * time.Minute))
	w.report.At = w.clock.Now()
	w.nodeStatus("mac-1", corev1.ConditionTrue)
	w.settle("mac-1")
	after := histogram(t, w.r.metrics.readiness)
	if took := after.GetSampleSum() - before.GetSampleSum(); after.GetSampleCount() != 2 || took < 60 || took > 180 {
		t.Errorf("%d Nodes became Ready, the second after %v seconds; want two minutes", after.GetSampleCount(), took)
	}
}
