package machine

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// One host needs one Machine: those that wait come in turns, first the one that the
// host prefers, and nobody is left out.
func TestWaitingMachinesAreWokenOneAfterAnother(t *testing.T) {
	var objects []client.Object
	for n := range 20 {
		objects = append(objects, pair(fmt.Sprintf("mac-%d", n))...)
	}
	free := poolHost(serverID)
	w := newWorld(t, append(objects, free)...)
	_, waiting := w.r.machinesOfHost(t.Context(), nil, free)
	if len(waiting) != 20 {
		t.Fatalf("%d of 20 are woken", len(waiting))
	}
	for n := 1; n < len(waiting); n++ {
		before, now := waiting[n-1], waiting[n]
		if host.RendezvousScore(before.Namespace, before.Name, free) < host.RendezvousScore(now.Namespace, now.Name, free) {
			t.Errorf("%s comes before %s", before.Name, now.Name)
		}
	}
	if wakeDelay(0) != 0 || wakeDelay(1) != wakeStep || wakeDelay(2) != wakeDelay(3) || wakeDelay(3) >= wakeDelay(4) {
		t.Errorf("turns: %v", []time.Duration{wakeDelay(0), wakeDelay(1), wakeDelay(2), wakeDelay(3), wakeDelay(4)})
	}
}

// A fleet of a thousand Macs counts a thousand times on its way up: were each count news to all of them, they would be
// looked at a million times.
func TestAProfileThatCountsWakesNobody(t *testing.T) {
	before := &infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	counted, asked := before.DeepCopy(), before.DeepCopy()
	counted.Status.Available, counted.ResourceVersion = 1, "2"
	asked.Generation = 2
	if profileChanges().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: counted}) {
		t.Error("a count wakes all Machines")
	}
	if !profileChanges().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: asked}) {
		t.Error("what the profile asks for wakes nobody")
	}
	if !profileChanges().Create(event.CreateEvent{Object: before}) {
		t.Error("a profile that Machines wait for wakes nobody")
	}
}
