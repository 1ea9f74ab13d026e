package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MachineTemplateResource is what each Machine of a template starts with.
type MachineTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +required
	Spec MachineClass `json:"spec,omitempty"`
}

// ScalewayAppleSiliconMachineTemplateSpec holds the template. A policy of the chart
// keeps it as it is: a rule here could not tell a change from the topology
// controller's dry run of one.
type ScalewayAppleSiliconMachineTemplateSpec struct {
	// +required
	Template MachineTemplateResource `json:"template,omitempty,omitzero"`
}

// ScalewayAppleSiliconMachineTemplate makes the Machines of a MachineDeployment.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sammt,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.template.spec.type`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.template.spec.zone`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalewayAppleSiliconMachineTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ScalewayAppleSiliconMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ScalewayAppleSiliconMachineTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type ScalewayAppleSiliconMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalewayAppleSiliconMachineTemplate `json:"items"`
}
