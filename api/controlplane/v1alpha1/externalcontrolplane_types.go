// Package v1alpha1 holds ExternalControlPlane: the control plane of a Cluster
// that exists already and that Macs join as workers. Cluster API needs such an
// object to drain and delete Nodes and to report availability.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ExternalControlPlane{}, &ExternalControlPlaneList{},
		&ExternalControlPlaneTemplate{}, &ExternalControlPlaneTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Conditions of an ExternalControlPlane and their reasons.
const (
	// ReadyCondition: the kubeconfig is there and the API server answers.
	ReadyCondition = "Ready"
	// KubeconfigAvailableCondition: <cluster>-kubeconfig is minted, or a Secret that is not ours is respected.
	KubeconfigAvailableCondition = "KubeconfigAvailable"

	// ReasonDifferentCluster: the recorded clusterID is not this cluster's; nothing is minted.
	ReasonDifferentCluster = "DifferentCluster"
	// ReasonEndpointUnknown: neither cluster-info nor --api-server-url names an address.
	ReasonEndpointUnknown = "EndpointUnknown"
	// ReasonTokenRefused: the API server refused a token for capi-remote.
	ReasonTokenRefused = "TokenRefused"
	// ReasonForeignSecret: the kubeconfig Secret is somebody else's and is left alone.
	ReasonForeignSecret = "ForeignSecret"
	// ReasonKubeconfigMissing: a kubeconfig is to be provided, and nobody has yet.
	ReasonKubeconfigMissing = "KubeconfigMissing"
)

// KubeconfigSource says where the kubeconfig comes from that core uses.
// +kubebuilder:validation:Enum=Minted;Provided
type KubeconfigSource string

// The sources of <cluster>-kubeconfig.
const (
	// KubeconfigMinted: made here, with a token that is renewed. A Secret that is
	// somebody else's is respected all the same.
	KubeconfigMinted KubeconfigSource = "Minted"
	// KubeconfigProvided: people or an operator of secrets put it there, and
	// nothing is minted while they have not.
	KubeconfigProvided KubeconfigSource = "Provided"
)

// ExternalControlPlaneSpec says which cluster Macs join.
type ExternalControlPlaneSpec struct {
	// version of Kubernetes that is wished for, which a Cluster's topology writes here. It
	// upgrades nothing: status.version is what the API server says.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z][0-9A-Za-z.+-]*$`
	Version string `json:"version,omitempty"`

	// controlPlaneEndpoint is where Macs reach the API server; macfleet fills it in where
	// it is empty. Default: what --api-server-url or kube-public/cluster-info says.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`

	// clusterID is the UID of the namespace kube-system, recorded at first use:
	// after a move to another cluster nothing is minted for the wrong one. Written by
	// macfleet.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z-]+$`
	ClusterID string `json:"clusterID,omitempty"`

	// kubeconfig says where the Secret <cluster>-kubeconfig comes from. Default: Minted.
	// +optional
	Kubeconfig KubeconfigSource `json:"kubeconfig,omitempty"`
}

// InitializationStatus is the contract's sign that a control plane was set up.
type InitializationStatus struct {
	// controlPlaneInitialized is true once there was a kubeconfig; it never goes back.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// ExternalControlPlaneStatus is what was observed of the control plane.
type ExternalControlPlaneStatus struct {
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`
	// externalManagedControlPlane is always true: no control-plane Machines exist.
	// +optional
	ExternalManagedControlPlane *bool `json:"externalManagedControlPlane,omitempty"`
	// version of the API server.
	// +optional
	Version string `json:"version,omitempty"`
	// tokenExpiresAt is when the minted kubeconfig's token ends; it is renewed well before.
	// +optional
	TokenExpiresAt *metav1.Time `json:"tokenExpiresAt,omitempty"`
	// conditions: Ready, KubeconfigAvailable, Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExternalControlPlane is the control plane of the cluster that Macs join.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ecp,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExternalControlPlane struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ExternalControlPlaneSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status ExternalControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, for the Cluster API helpers.
func (e *ExternalControlPlane) GetConditions() []metav1.Condition { return e.Status.Conditions }

// SetConditions replaces the conditions, for the Cluster API helpers.
func (e *ExternalControlPlane) SetConditions(conditions []metav1.Condition) {
	e.Status.Conditions = conditions
}

// ExternalControlPlaneList is a list of control planes.
//
// +kubebuilder:object:root=true
type ExternalControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ExternalControlPlane `json:"items"`
}
