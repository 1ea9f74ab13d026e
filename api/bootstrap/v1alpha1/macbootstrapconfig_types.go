// Package v1alpha1 holds MacBootstrapConfig, which is there because Cluster API's
// ClusterClass wants a bootstrap template. A Mac's join material is made when the Mac
// joins, and is never bootstrap data.
//
// +kubebuilder:object:generate=true
// +groupName=bootstrap.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "bootstrap.cluster.x-k8s.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&MacBootstrapConfig{}, &MacBootstrapConfigList{},
		&MacBootstrapConfigTemplate{}, &MacBootstrapConfigTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Conditions of a MacBootstrapConfig and their reasons.
const (
	// ReadyCondition: the Secret that Cluster API wants is there.
	ReadyCondition = "Ready"

	// ReasonForeignSecret: a Secret of that name is somebody else's and is left alone.
	ReasonForeignSecret = "ForeignSecret"
)

// MacBootstrapConfigSpec is empty: what a Mac becomes is said by its
// ScalewayAppleSiliconMachine and MacNodeProfile.
type MacBootstrapConfigSpec struct{}

// InitializationStatus is the contract's sign that the data was made.
type InitializationStatus struct {
	// dataSecretCreated is true once the Secret is there; it never goes back.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// MacBootstrapConfigStatus is what was observed of the Secret.
type MacBootstrapConfigStatus struct {
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// dataSecretName is the Secret that Machines must name. It holds nothing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`

	// conditions: Ready, Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// MacBootstrapConfig stands for the bootstrap data of one Machine, of which there is none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mbc,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MacBootstrapConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec MacBootstrapConfigSpec `json:"spec,omitempty"`
	// +optional
	Status MacBootstrapConfigStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, for the Cluster API helpers.
func (c *MacBootstrapConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions, for the Cluster API helpers.
func (c *MacBootstrapConfig) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// MacBootstrapConfigList is a list of configs.
//
// +kubebuilder:object:root=true
type MacBootstrapConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MacBootstrapConfig `json:"items"`
}

// MacBootstrapConfigTemplateResource is what each config of a template starts with.
type MacBootstrapConfigTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +required
	Spec MacBootstrapConfigSpec `json:"spec,omitempty"`
}

// MacBootstrapConfigTemplateSpec holds the template.
type MacBootstrapConfigTemplateSpec struct {
	// +required
	Template MacBootstrapConfigTemplateResource `json:"template,omitempty"`
}

// MacBootstrapConfigTemplate makes the configs of the Machines of a ClusterClass.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=mbct,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MacBootstrapConfigTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec MacBootstrapConfigTemplateSpec `json:"spec,omitempty"`
}

// MacBootstrapConfigTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type MacBootstrapConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MacBootstrapConfigTemplate `json:"items"`
}
