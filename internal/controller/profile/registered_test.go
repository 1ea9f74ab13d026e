package profile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// A Mac registers its Node with what it was told, and the profile may have changed by
// then. What the manager has on record is its own; what the Node only says is nobody's
// to take away, be it another's taint or one that the Mac calls ours.
func TestWhatAMacRegisteredWithGoesWithTheProfile(t *testing.T) {
	const hostName = "fr-par-1-00000001-1111-4111-8111-111111111111"
	told := infrav1.RegistrationRecord{Labels: []string{"tier"}, Taints: []string{"tuist.dev/macos:NoSchedule"}}
	foreign := taint("others", "1", "NoExecute")
	for name, c := range map[string]struct {
		told  *infrav1.RegistrationRecord
		token string
		note  string
		stays bool
	}{
		"it was told":                      {told: &told, token: "t"},
		"nobody told it":                   {token: "t", stays: true},
		"the claim is another's":           {told: &told, token: "theirs", stays: true},
		"it was looked at before":          {told: &told, token: "t", note: `{"labels":["team"]}`, stays: true},
		"it was kept before":               {token: "t", note: `{"labels":["tier"],"taints":["tuist.dev/macos:NoSchedule"]}`},
		"nobody can read what was noted":   {told: &told, token: "t", note: "hello", stays: true},
		"there is no Host any more":        {stays: true},
		"another effect of the key is its": {told: &infrav1.RegistrationRecord{Taints: []string{"tuist.dev/macos:NoExecute"}}, token: "t", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := builders()
			p.Spec.Node.Taints = &[]infrav1.Taint{}
			p.Spec.Node.Labels = map[string]infrav1.LabelValue{"team": "ios"}
			w := newWorld(t, append(running("a", "builders", revision()), p)...)
			m := w.machine("a")
			m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "t"}
			w.update(m)
			if c.token != "" {
				h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: hostName}}
				h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: namespace, Name: "a", Token: c.token, UID: m.UID}
				h.Spec.Record.Registration = c.told
				if err := w.client.Create(t.Context(), h); err != nil {
					t.Fatal(err)
				}
			}
			node := w.node("a")
			node.Spec.Taints = []corev1.Taint{foreign, taint("tuist.dev/macos", "true", "NoSchedule")}
			node.Labels["tier"] = "1"
			if c.note != "" {
				node.Annotations = map[string]string{infrav1.KeptAnnotation: c.note}
			}
			w.update(node)
			// A Host that is not the Machine's keeps its Node out of the profile's hands.
			touched := c.token != "theirs"
			for range 2 {
				w.visit("builders")
				node = w.node("a")
				want, labels := []corev1.Taint{foreign}, map[string]string{"foreign": "stays"}
				if touched {
					labels["team"], labels[infrav1.FleetLabel] = "ios", "macfleet-builders"
				}
				if c.stays {
					want = append(want, taint("tuist.dev/macos", "true", "NoSchedule"))
					labels["tier"] = "1"
				}
				if diff := cmp.Diff(want, node.Spec.Taints); diff != "" {
					t.Errorf("taints (-want +got)\n%s", diff)
				}
				if diff := cmp.Diff(labels, node.Labels); diff != "" {
					t.Errorf("labels (-want +got)\n%s", diff)
				}
			}
		})
	}
}

// Once the Node was looked at, what was told counts no more: what somebody puts on it
// later is theirs, also under a name that was once the profile's.
func TestWhatWasToldCountsOnce(t *testing.T) {
	const hostName = "fr-par-1-00000001-1111-4111-8111-111111111111"
	p := builders()
	p.Spec.Node.Taints = &[]infrav1.Taint{}
	w := newWorld(t, append(running("a", "builders", revision()), p)...)
	m := w.machine("a")
	m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "t"}
	w.update(m)
	h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: hostName}}
	h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: namespace, Name: "a", Token: "t", UID: m.UID}
	h.Spec.Record.Registration = &infrav1.RegistrationRecord{Taints: []string{"tuist.dev/macos:NoSchedule"}}
	if err := w.client.Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	w.visit("builders")
	node := w.node("a")
	node.Spec.Taints = []corev1.Taint{taint("tuist.dev/macos", "true", "NoSchedule")}
	w.update(node)
	w.visit("builders")
	if got := w.node("a").Spec.Taints; len(got) != 1 {
		t.Errorf("a taint of somebody else's was taken away: %v", got)
	}
}
