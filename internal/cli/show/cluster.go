package show

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func zoneFindings(s *snapshot.Snapshot, book reasons.Book) []finding {
	var found []finding
	for i := range s.Zones {
		conditions := s.Zones[i].Status.Conditions
		for _, c := range Unwell(conditions) {
			f := finding{of("cluster", &s.Zones[i], c), book.Asks(c.Reason, c.Type)}
			if f.person {
				f.Command = oneCommand(book, conditions, clusterNames(&s.Zones[i]))
			}
			if WaitsForKey(conditions, c) {
				f.Message += "; it ends when the API key works"
			}
			found = append(found, f)
		}
	}
	for i := range s.ControlPlanes {
		conditions := s.ControlPlanes[i].Status.Conditions
		for _, c := range Unwell(conditions) {
			f := finding{of("controlplane", &s.ControlPlanes[i], c), book.Asks(c.Reason, c.Type)}
			if f.person {
				f.Command = oneCommand(book, conditions, clusterNames(&s.ControlPlanes[i]))
			}
			found = append(found, f)
		}
	}
	return found
}

// ClusterName is the Cluster that an object belongs to: Cluster API labels what it names. One
// without the label bears the Cluster's name mostly.
func ClusterName(object metav1.Object) string {
	return cmp.Or(object.GetLabels()[clusterv1.ClusterNameLabel], object.GetName())
}

// Unwell are the conditions that are not as on a good day, without those that repeat another,
// as Ready does.
func Unwell(conditions []metav1.Condition) []metav1.Condition {
	var unwell []metav1.Condition
	for _, c := range conditions {
		repeats := func(told metav1.Condition) bool { return told.Reason == c.Reason && told.Message == c.Message }
		if c.Type != infrav1.ReadyCondition && Unhealthy(c) && !slices.ContainsFunc(unwell, repeats) {
			unwell = append(unwell, c)
		}
	}
	return unwell
}

// WaitsForKey says whether one of a cluster's conditions ends no sooner than the vendor takes
// the API key, which it rejects now: that a vendor fails passes by itself else.
func WaitsForKey(conditions []metav1.Condition, c metav1.Condition) bool {
	credentials := meta.FindStatusCondition(conditions, infrav1.CredentialsValidCondition)
	rejected := credentials != nil && credentials.Reason == infrav1.ReasonCredentialsRejected
	return rejected && c.Reason == infrav1.ReasonVendorFailing
}
