package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RestartAgentAnnotation on an infra machine asks for one restart of the agent on
// its Mac. Its value names the request; status.applied.restart repeats it when done.
const RestartAgentAnnotation = "infrastructure.cluster.x-k8s.io/restart-agent"

// RemediatedCondition of a remediation says how far it has come.
const (
	RemediatedCondition = "Remediated"

	ReasonDiagnosing      = "Diagnosing"
	ReasonRestartingAgent = "RestartingAgent"
	ReasonRebooting       = "Rebooting"
	ReasonExhausted       = "Exhausted"
	ReasonHeld            = "Held"
	ReasonRecovered       = "Recovered"
)

// ScalewayAppleSiliconRemediationSpec says how long each step may take until the
// Node must be Ready again. After the last step the Machine is given up, and its
// owner replaces it.
type ScalewayAppleSiliconRemediationSpec struct {
	// agentRestartTimeoutSeconds after the agent was restarted over SSH; 0 leaves
	// this step out. Default: 180.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AgentRestartTimeoutSeconds *int32 `json:"agentRestartTimeoutSeconds,omitempty"`
	// rebootTimeoutSeconds after the vendor took the reboot, which is a power cut;
	// 0 leaves this step out. Default: 900.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RebootTimeoutSeconds *int32 `json:"rebootTimeoutSeconds,omitempty"`
}

// ScalewayAppleSiliconRemediationStatus is how far the remediation has come.
type ScalewayAppleSiliconRemediationStatus struct {
	// step that is under way.
	// +optional
	Step string `json:"step,omitempty"`
	// stepStartedAt is when this step began; its timeout counts from there.
	// +optional
	StepStartedAt *metav1.MicroTime `json:"stepStartedAt,omitempty"`
	// round counts how often the steps were left behind: the Node was well again, or no
	// health check asked for them any more. A later round asks for its restart and its
	// reboot anew.
	// +optional
	Round int32 `json:"round,omitempty"`
	// conditions: Remediated.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScalewayAppleSiliconRemediation tries to mend one Machine that a
// MachineHealthCheck found unhealthy: diagnose, restart the agent, reboot the Mac,
// and at last give the Machine up. It bears the Machine's name; the
// MachineHealthCheck makes it and removes it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=sasr,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Step",type=string,JSONPath=`.status.step`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Remediated")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalewayAppleSiliconRemediation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ScalewayAppleSiliconRemediationSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status ScalewayAppleSiliconRemediationStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, for the Cluster API helpers.
func (r *ScalewayAppleSiliconRemediation) GetConditions() []metav1.Condition {
	return r.Status.Conditions
}

// SetConditions replaces the conditions, for the Cluster API helpers.
func (r *ScalewayAppleSiliconRemediation) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// ScalewayAppleSiliconRemediationList is a list of remediations.
//
// +kubebuilder:object:root=true
type ScalewayAppleSiliconRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalewayAppleSiliconRemediation `json:"items"`
}

// RemediationTemplateResource is what each remediation of a template starts with.
type RemediationTemplateResource struct {
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// +optional
	Spec ScalewayAppleSiliconRemediationSpec `json:"spec,omitempty,omitzero"`
}

// ScalewayAppleSiliconRemediationTemplateSpec holds the template.
type ScalewayAppleSiliconRemediationTemplateSpec struct {
	// +optional
	Template RemediationTemplateResource `json:"template,omitempty,omitzero"`
}

// ScalewayAppleSiliconRemediationTemplate is what a MachineHealthCheck makes
// remediations from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=sasrt,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalewayAppleSiliconRemediationTemplate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ScalewayAppleSiliconRemediationTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ScalewayAppleSiliconRemediationTemplateList is a list of templates.
//
// +kubebuilder:object:root=true
type ScalewayAppleSiliconRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalewayAppleSiliconRemediationTemplate `json:"items"`
}
