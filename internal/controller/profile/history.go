package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// historyLength is how many revisions a profile remembers, as the field's MaxItems says.
const historyLength = 4

// remember takes the profile into its own history, once all of its Macs are as it says.
func remember(profile *infrav1.MacNodeProfile, now metav1.Time) error {
	spec := profile.Spec.DeepCopy()
	spec.Rollout = infrav1.RolloutPolicy{}
	raw, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("writing the history of MacNodeProfile %s: %w", profile.Name, err)
	}
	status := &profile.Status
	if len(status.History) > 0 && status.History[0].Revision == status.Revision && bytes.Equal(status.History[0].Spec.Raw, raw) {
		return nil
	}
	older := slices.DeleteFunc(slices.Clone(status.History), func(r infrav1.ProfileRevision) bool { return r.Revision == status.Revision })
	status.History = append([]infrav1.ProfileRevision{{Revision: status.Revision, RolledOutAt: now, Spec: runtime.RawExtension{Raw: raw}}}, older...)
	status.History = status.History[:min(len(status.History), historyLength)]
	return nil
}
