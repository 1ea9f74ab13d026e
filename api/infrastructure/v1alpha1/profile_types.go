package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeSettings is how a Mac looks as a Node.
type NodeSettings struct {
	// labels set when the Node registers. Labels a node may not set on itself
	// are refused.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('node-role.kubernetes.io/') && !k.contains('node-restriction.kubernetes.io/') && k != 'kubernetes.io/role')",message="a node may not set node-role.kubernetes.io/, node-restriction.kubernetes.io/ or kubernetes.io/role labels on itself"
	Labels map[string]string `json:"labels,omitempty"`

	// taints set when the Node registers. Default, when absent:
	// tuist.dev/macos=true:NoSchedule.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Taints *[]corev1.Taint `json:"taints,omitempty"`

	// maxVMs is how many guests run at once. Apple's licence allows two.
	// Default: 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	MaxVMs int32 `json:"maxVMs,omitempty"`
}

// MacNodeProfileSpec is the desired state of Macs as nodes.
type MacNodeProfileSpec struct {
	// +optional
	Node NodeSettings `json:"node,omitempty,omitzero"`
}

// MacNodeProfile is the desired state of Macs as nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=mnp,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Max VMs",type=integer,JSONPath=`.spec.node.maxVMs`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MacNodeProfile struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MacNodeProfileSpec `json:"spec,omitempty,omitzero"`
}

// MacNodeProfileList is a list of profiles.
//
// +kubebuilder:object:root=true
type MacNodeProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MacNodeProfile `json:"items"`
}
