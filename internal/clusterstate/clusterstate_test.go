package clusterstate

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// A disk is wiped by what this says: that the Cluster, or only its infrastructure, is
// paused, goes or is not here must not be missed.
func TestTheStateOfAClusterWithMacs(t *testing.T) {
	type objects struct {
		cluster *clusterv1.Cluster
		infra   *infrav1.ScalewayAppleSiliconCluster
	}
	goes := func(m *metav1.ObjectMeta) {
		m.DeletionTimestamp, m.Finalizers = ptr.To(metav1.Unix(1, 0)), []string{"test/kept"}
	}
	paused := map[string]string{clusterv1.PausedAnnotation: ""}
	for name, c := range map[string]struct {
		change func(*objects)
		want   host.ClusterState
	}{
		"at work":                {func(*objects) {}, host.ClusterState{}},
		"paused":                 {func(o *objects) { o.cluster.Spec.Paused = ptr.To(true) }, host.ClusterState{Paused: true}},
		"paused by annotation":   {func(o *objects) { o.cluster.Annotations = paused }, host.ClusterState{Paused: true}},
		"infrastructure paused":  {func(o *objects) { o.infra.Annotations = paused }, host.ClusterState{Paused: true}},
		"being deleted":          {func(o *objects) { goes(&o.cluster.ObjectMeta) }, host.ClusterState{Deleting: true}},
		"infrastructure deleted": {func(o *objects) { goes(&o.infra.ObjectMeta) }, host.ClusterState{Deleting: true}},
		"moved away":             {func(o *objects) { o.cluster.Name = "other" }, host.ClusterState{Missing: true}},
		"owned, without a label": {func(o *objects) {
			o.infra.Labels = nil
			o.infra.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "x"}, {Kind: "Cluster", Name: "macs"}}
		}, host.ClusterState{}},
	} {
		t.Run(name, func(t *testing.T) {
			meta := metav1.ObjectMeta{Namespace: "fleet", Name: "macs"}
			o := &objects{&clusterv1.Cluster{ObjectMeta: meta}, &infrav1.ScalewayAppleSiliconCluster{ObjectMeta: meta}}
			o.infra.Labels = map[string]string{clusterv1.ClusterNameLabel: "macs"}
			c.change(o)
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, infrav1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(o.cluster, o.infra).Build()
			got, err := List(t.Context(), api, func(*infrav1.ScalewayAppleSiliconCluster) bool { return true })
			c.want.Namespace, c.want.Name = "fleet", "macs"
			if err != nil || len(got) != 1 || got[0] != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
			if none, err := List(t.Context(), api, func(*infrav1.ScalewayAppleSiliconCluster) bool { return false }); err != nil || len(none) != 0 {
				t.Errorf("%+v, %v; want those that fit alone", none, err)
			}
		})
	}
}
