// Package v1alpha1 holds the infrastructure kinds of macfleet: the Cluster API
// contract kinds for Apple-silicon Macs, the hosts behind them, and the profile
// that says how a Mac looks as a node. It holds types only; decisions live in
// internal/host, acts in internal/controller.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ScalewayAppleSiliconCluster{}, &ScalewayAppleSiliconClusterList{},
		&ScalewayAppleSiliconClusterTemplate{}, &ScalewayAppleSiliconClusterTemplateList{},
		&ScalewayAppleSiliconMachine{}, &ScalewayAppleSiliconMachineList{},
		&ScalewayAppleSiliconMachineTemplate{}, &ScalewayAppleSiliconMachineTemplateList{},
		&ScalewayAppleSiliconHost{}, &ScalewayAppleSiliconHostList{},
		&ScalewayAppleSiliconRemediation{}, &ScalewayAppleSiliconRemediationList{},
		&ScalewayAppleSiliconRemediationTemplate{}, &ScalewayAppleSiliconRemediationTemplateList{},
		&MacNodeProfile{}, &MacNodeProfileList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
