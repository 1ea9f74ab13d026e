package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
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

// TemplateNodeInfo is the system of the Nodes that come of a template.
type TemplateNodeInfo struct {
	// architecture is arm64.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Architecture string `json:"architecture,omitempty"`
	// operatingSystem is darwin.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// ScalewayAppleSiliconMachineTemplateStatus foretells the Nodes of a template's
// Machines, so that an autoscaler knows them before there is one.
type ScalewayAppleSiliconMachineTemplateStatus struct {
	// capacity is what Pods can have of a Mac of spec.template.spec.type: less than the
	// Mac has, since it keeps some for itself, and more by one Pod and 100m of CPU, which
	// cluster-autoscaler takes off for a kube-proxy that no Mac runs. Empty: no type is
	// named, or the vendor does not list it.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// nodeInfo of the Nodes.
	// +optional
	NodeInfo TemplateNodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// ScalewayAppleSiliconMachineTemplate makes the Machines of a MachineDeployment.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
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
	// +optional
	Status ScalewayAppleSiliconMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// ScalewayAppleSiliconMachineTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type ScalewayAppleSiliconMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalewayAppleSiliconMachineTemplate `json:"items"`
}
