package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ClusterTemplateResourceSpec is a ScalewayAppleSiliconClusterSpec of which nothing is
// required: what a template leaves out, a ClusterClass' patches put in.
type ClusterTemplateResourceSpec struct {
	// zones are the vendor zones of each Cluster that is made of this template.
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[a-z]{2}-[a-z]{3}-[0-9]+$`
	// +listType=set
	Zones []string `json:"zones,omitempty"`
}

// ClusterTemplateResource is what each infrastructure cluster of a template starts with.
type ClusterTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +required
	Spec ClusterTemplateResourceSpec `json:"spec,omitempty"`
}

// ScalewayAppleSiliconClusterTemplateSpec holds the template.
type ScalewayAppleSiliconClusterTemplateSpec struct {
	// +required
	Template ClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// ScalewayAppleSiliconClusterTemplate makes the infrastructure of the Clusters of a
// ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sasct,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalewayAppleSiliconClusterTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ScalewayAppleSiliconClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ScalewayAppleSiliconClusterTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type ScalewayAppleSiliconClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalewayAppleSiliconClusterTemplate `json:"items"`
}
