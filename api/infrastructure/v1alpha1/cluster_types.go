package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ScalewayAppleSiliconClusterSpec says where the Macs of a Cluster are.
type ScalewayAppleSiliconClusterSpec struct {
	// zones are the vendor zones of this Cluster; each becomes a failure domain.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=32
	// +kubebuilder:validation:items:Pattern=`^[a-z]{2}-[a-z]{3}-[0-9]+$`
	// +listType=set
	// +required
	Zones []string `json:"zones,omitempty"`

	// controlPlaneEndpoint is set by people only; macfleet joins Macs to a
	// cluster that exists already and never provides an endpoint.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// InitializationStatus is the contract's sign that something was first set up.
type InitializationStatus struct {
	// provisioned is true once the infrastructure is there; it never goes back.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// ScalewayAppleSiliconClusterStatus is what was observed of the Cluster's zones.
type ScalewayAppleSiliconClusterStatus struct {
	// initialization.provisioned: credentials work and every zone was listed once.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// failureDomains are the zones, with the number of hosts known there.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`

	// conditions: Ready, CredentialsValid, InventorySynced, DestructionHeld, Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScalewayAppleSiliconCluster is the infrastructure of a Cluster whose workers are
// Macs of one vendor project.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sasc,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalewayAppleSiliconCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ScalewayAppleSiliconClusterSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status ScalewayAppleSiliconClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, for the Cluster API helpers.
func (c *ScalewayAppleSiliconCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions, for the Cluster API helpers.
func (c *ScalewayAppleSiliconCluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// ScalewayAppleSiliconClusterList is a list of clusters.
//
// +kubebuilder:object:root=true
type ScalewayAppleSiliconClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalewayAppleSiliconCluster `json:"items"`
}
