package machine

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// held is what the Node says of its scale-down.
func (w *world) held() (disabled, until string) {
	w.t.Helper()
	node := &corev1.Node{}
	w.get(client.ObjectKey{Name: "mac-1"}, node)
	return node.Annotations[infrav1.ScaleDownDisabledAnnotation], node.Annotations[infrav1.HeldUntilAnnotation]
}

// billed is a Mac that runs, is given back by its release, and is billed for a day at
// least.
func billed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	w.running("mac-1")
	h := w.host(hostName)
	h.Status.Server.DeletableAt = ptr.To(metav1.NewTime(w.clock.Now().Add(24 * time.Hour)))
	w.updateStatus(h)
	w.annotate(infrav1.ReleasePolicyAnnotation, "terminate")
	return w
}

func TestTheNodeOfAPaidMacIsHeldUntilItsFloorIsNear(t *testing.T) {
	w := billed(t)
	w.settle("mac-1")
	if disabled, until := w.held(); disabled != "" || until != "" {
		t.Fatalf("a fleet that nobody scales is held: %q until %q", disabled, until)
	}
	w.annotate(infrav1.AutoscaledAnnotation, "true")
	result := w.settle("mac-1")
	disabled, until := w.held()
	end, err := time.Parse(time.RFC3339, until)
	if err != nil || disabled != "true" {
		t.Fatalf("held: %q until %q", disabled, until)
	}
	if left := end.Sub(w.clock.Now()); left < 22*time.Hour || left > 23*time.Hour || result.RequeueAfter > left {
		t.Errorf("held for %s, looked at again in %s", left, result.RequeueAfter)
	}
	w.clock.SetTime(end)
	w.settle("mac-1")
	if disabled, until := w.held(); disabled != "" || until != "" {
		t.Errorf("held when the floor is near: %q until %q", disabled, until)
	}
}

func TestAHoldEndsWithAutoscaling(t *testing.T) {
	w := billed(t)
	w.annotate(infrav1.AutoscaledAnnotation, "true")
	w.settle("mac-1")
	if disabled, _ := w.held(); disabled != "true" {
		t.Fatal("not held")
	}
	w.annotate(infrav1.AutoscaledAnnotation, "false")
	w.settle("mac-1")
	if disabled, until := w.held(); disabled != "" || until != "" {
		t.Errorf("held without autoscaling: %q until %q", disabled, until)
	}
}

func TestAnotherWordOnTheNodeWakesItsMachine(t *testing.T) {
	before, now := &corev1.Node{}, &corev1.Node{}
	now.Annotations = map[string]string{infrav1.ScaleDownDisabledAnnotation: "true"}
	if !scaleDownNews(before, now) || !scaleDownNews(now, before) || scaleDownNews(now, now) {
		t.Error("a Node whose hold is written or taken away wakes its Machine, and no other")
	}
}
