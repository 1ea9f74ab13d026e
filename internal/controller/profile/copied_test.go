package profile

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// A Machine of the same name in another namespace, with the hostRef and providerID
// of this one: its profile must not change the labels of a Node that is not its own,
// nor count it.
func TestACopiedMachineIsNoMacOfItsProfile(t *testing.T) {
	h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: "host-1"}}
	for name, row := range map[string]struct {
		claim *infrav1.ClaimReference
		is    bool
	}{
		"its own":       {&infrav1.ClaimReference{Namespace: namespace, Name: "a", Token: "t"}, true},
		"created again": {&infrav1.ClaimReference{Namespace: namespace, Name: "a", Token: "t", UID: "before"}, true},
		"a namesake's":  {&infrav1.ClaimReference{Namespace: "other", Name: "a", Token: "t"}, false},
		"freed":         {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			profile := builders()
			profile.Spec.Node.Labels = map[string]infrav1.LabelValue{"tier": "gold"}
			objects := running("a", "builders", revision())
			m := objects[0].(*infrav1.ScalewayAppleSiliconMachine)
			m.UID = "now"
			m.Spec.HostRef = &infrav1.HostReference{Name: h.Name, ClaimToken: "t"}
			claimed := h.DeepCopy()
			claimed.Spec.ClaimRef = row.claim
			w := newWorld(t, append(objects, profile, claimed)...)
			w.visit("builders")
			if got := w.node("a").Labels["tier"] == "gold"; got != row.is {
				t.Errorf("its Node is labelled: %t", got)
			}
			if got := w.profile().Status.Available == 1; got != row.is {
				t.Errorf("available = %d", w.profile().Status.Available)
			}
		})
	}
}
