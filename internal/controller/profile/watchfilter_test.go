package profile

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Two instances that both wrote a profile's status would wake each other for ever.
func TestAProfileIsItsInstancesAlone(t *testing.T) {
	w := newWorld(t, append(three("old"), builders())...)
	w.r.WatchFilter = "mine"
	w.visit("builders")
	if n := w.countWrites(); n != 0 {
		t.Errorf("%d writes of another instance's profile", n)
	}
	p := w.profile()
	p.Labels = map[string]string{clusterv1.WatchLabel: "mine"}
	w.update(p)
	w.visit("builders")
	if w.countWrites() == 0 {
		t.Error("nothing is written of a profile with our label")
	}
}
