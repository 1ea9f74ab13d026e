package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ExternalControlPlaneClass is what a ClusterClass may say of a control plane. The version
// is the topology's, and the rest of each cluster's own.
type ExternalControlPlaneClass struct {
	// kubeconfig says where the Secret <cluster>-kubeconfig comes from. Default: Minted.
	// +optional
	Kubeconfig KubeconfigSource `json:"kubeconfig,omitempty"`
}

// ExternalControlPlaneTemplateResource is what each control plane of a template starts with.
type ExternalControlPlaneTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +required
	Spec ExternalControlPlaneClass `json:"spec,omitempty"`
}

// ExternalControlPlaneTemplateSpec holds the template.
type ExternalControlPlaneTemplateSpec struct {
	// +required
	Template ExternalControlPlaneTemplateResource `json:"template,omitempty,omitzero"`
}

// ExternalControlPlaneTemplate makes the control plane objects of the Clusters of a
// ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=ecpt,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalControlPlaneTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ExternalControlPlaneTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ExternalControlPlaneTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type ExternalControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalControlPlaneTemplate `json:"items"`
}
