package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

const (
	// MachineFinalizer on an infra machine holds it until its host's release is recorded.
	// Written by macfleet.
	MachineFinalizer = "scalewayapplesilicon.cluster.x-k8s.io/finalizer"

	// FleetLabel on the objects of a fleet is the fleet's name: the chart sets it, and whoever
	// writes a MachineDeployment sets it in its template. macfleet sets it on Nodes.
	FleetLabel = "tuist.dev/fleet"

	// ProviderIDPrefix starts every providerID: scw-applesilicon://<zone>/<serverID>.
	ProviderIDPrefix = "scw-applesilicon://"
)

// ReleasePolicyAnnotation on an infra machine overrides its spec.releasePolicy,
// for one Machine and by a person: terminate, recycle or detach.
const ReleasePolicyAnnotation = "tuist.dev/release-policy"

// Annotations about cluster-autoscaler, which scales MachineDeployments by the Pods that
// wait and the Nodes that idle.
const (
	// AutoscaledAnnotation on an infra machine: "true" has its Node held against a
	// scale-down while its Mac is paid for anyway. The chart writes it in the
	// MachineDeployment's template, from where Cluster API brings it to each Machine.
	AutoscaledAnnotation = "infrastructure.cluster.x-k8s.io/autoscaled"

	// ScaleDownDisabledAnnotation on a Node is the autoscaler's own: "true" keeps it
	// from removing that Node. macfleet sets it, too.
	ScaleDownDisabledAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"

	// HeldUntilAnnotation on a Node says that the manager set scale-down-disabled, and until
	// when. Without it that one is somebody else's, and stays as it is. Written by macfleet.
	HeldUntilAnnotation = "infrastructure.cluster.x-k8s.io/held-until"
)

// ReleasePolicy says what becomes of a host when its Machine lets go of it.
type ReleasePolicy string

// The release policies. Machines use the first three, releases of hosts all but Detach.
const (
	// Recycle wipes the host and returns it to the pool.
	Recycle ReleasePolicy = "Recycle"
	// Terminate wipes the host and gives it back to the vendor, at the billing
	// floor when it cannot go before.
	Terminate ReleasePolicy = "Terminate"
	// Detach forgets the host: its claim is cleared, the vendor is not asked.
	Detach ReleasePolicy = "Detach"
	// Reinstall wipes the host for the Machine that keeps its claim: the recovery
	// of an ordered server.
	Reinstall ReleasePolicy = "Reinstall"
)

// Acquisition says where a Machine's host comes from.
// +kubebuilder:validation:Enum=Adopt;Order
type Acquisition string

// The acquisitions.
const (
	// Adopt claims a free host of the pool.
	Adopt Acquisition = "Adopt"
	// Order has a new server made for the Machine.
	Order Acquisition = "Order"
)

// MachineClass is what a Machine asks of its Mac; templates hold nothing else.
type MachineClass struct {
	// zone is the vendor zone. Default: the Machine's failure domain, else the
	// Cluster's first zone. A host of another zone is never used.
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z]{2}-[a-z]{3}-[0-9]+$`
	// +kubebuilder:validation:MaxLength=32
	Zone string `json:"zone,omitempty"`

	// type is the vendor's server type, e.g. M2-L; exact. Default: any.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._-]*$`
	Type string `json:"type,omitempty"`

	// os is the macOS family, e.g. tahoe, in any case, and also as macos-tahoe; point
	// releases are refused, because the vendor withdraws those. Default: any.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([Mm]ac[Oo][Ss][- ])?[A-Za-z]+$`
	OS string `json:"os,omitempty"`

	// adoptPoolPrefix is the name prefix of adoptable servers, and of released
	// ones. Default: the manager's --default-adopt-pool-prefix.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*)-$`
	AdoptPoolPrefix string `json:"adoptPoolPrefix,omitempty"`

	// acquisition says where the host comes from: the pool, or a new order.
	// Default: Adopt.
	// +optional
	Acquisition Acquisition `json:"acquisition,omitempty"`

	// hostSelector restricts the hosts by their labels; facts are labels, too.
	// It does not concern ordered servers.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`

	// releasePolicy says what becomes of the host. Default: Recycle for an
	// adopted one, Terminate for an ordered one.
	// +optional
	// +kubebuilder:validation:Enum=Recycle;Terminate;Detach
	ReleasePolicy ReleasePolicy `json:"releasePolicy,omitempty"`

	// fleetName chooses the SSH key of the fleet and is shown on the Node as
	// label tuist.dev/fleet. Default: the name of the MachineDeployment.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`
	FleetName string `json:"fleetName,omitempty"`

	// profileRef names the MacNodeProfile in the same namespace. Default: the
	// built-in profile.
	// +optional
	ProfileRef *ProfileReference `json:"profileRef,omitempty"`
}

// ProfileReference names a MacNodeProfile of the same namespace.
type ProfileReference struct {
	// name of the MacNodeProfile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// HostReference is the intent of a claim. It is in spec, because moving a
// Cluster to another management cluster drops status.
type HostReference struct {
	// name of the ScalewayAppleSiliconHost.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// claimToken is random and fresh for each intent; the claim on the host
	// carries the same one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._-]+$`
	ClaimToken string `json:"claimToken,omitempty"`

	// takeOver: the first system of this kind had this Mac, and it is taken over as it
	// stands. No other host is ever taken for this Machine.
	// +optional
	TakeOver bool `json:"takeOver,omitempty"`
}

// ScalewayAppleSiliconMachineSpec is the wish for one Mac as a node.
type ScalewayAppleSiliconMachineSpec struct {
	MachineClass `json:",inline"`

	// providerID is scw-applesilicon://<zone>/<serverID>, written together with
	// status.initialization.provisioned. Written by macfleet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^scw-applesilicon://[a-z0-9-]+/[0-9a-f-]{36}$`
	ProviderID string `json:"providerID,omitempty"`

	// hostRef is the claim's intent. Written by macfleet.
	// +optional
	HostRef *HostReference `json:"hostRef,omitempty"`
}

// StepError is the step of a bootstrap that failed, and the class of failure.
type StepError struct {
	// step of converge, or of what comes before it, that failed.
	// +optional
	Step string `json:"step,omitempty"`
	// class: retry, wait, reboot, reinstall, human or bug.
	// +optional
	Class string `json:"class,omitempty"`
}

// BootstrapStatus mirrors the host's record of attempts.
type BootstrapStatus struct {
	// attempts of this claim that failed.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// rebootIssued: the one reboot of this claim's recovery was made.
	// +optional
	RebootIssued bool `json:"rebootIssued,omitempty"`
	// +optional
	LastError *StepError `json:"lastError,omitempty"`
}

// AppliedStatus is what the Mac was last converged to.
type AppliedStatus struct {
	// revision is the hash of the desired document without its per-host fields. It is
	// empty while the Mac is between two.
	// +optional
	Revision string `json:"revision,omitempty"`
	// agent is the SHA-256 of the agent's build.
	// +optional
	Agent string `json:"agent,omitempty"`
	// sshKey is the fingerprint of the fleet's SSH key that the Mac was last given.
	// +optional
	SSHKey string `json:"sshKey,omitempty"`
	// restart is the last request of the annotation restart-agent that was met.
	// +optional
	Restart string `json:"restart,omitempty"`
}

// UpdateStatus is how the Mac fares with changes after its first bootstrap.
type UpdateStatus struct {
	// revision that was last tried.
	// +optional
	Revision string `json:"revision,omitempty"`
	// failures of that revision on this Mac since it last held.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// lastFailedAt is when the last of these failures was.
	// +optional
	LastFailedAt *metav1.Time `json:"lastFailedAt,omitempty"`
	// heldAt: a try was put off then, which is nobody's failure.
	// +optional
	HeldAt *metav1.Time `json:"heldAt,omitempty"`
	// retriedAt: a try of that revision failed then, which may have been nobody's fault,
	// as of the network; the next failure counts.
	// +optional
	RetriedAt *metav1.Time `json:"retriedAt,omitempty"`
	// provedAt: the Mac last proved then that it is at applied.revision.
	// +optional
	ProvedAt *metav1.Time `json:"provedAt,omitempty"`
}

// DriftStatus is what was found changed on the Mac behind our back.
type DriftStatus struct {
	// checkedAt is when it was last looked.
	// +optional
	CheckedAt *metav1.Time `json:"checkedAt,omitempty"`
	// steps of converge that would change something.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	Steps []string `json:"steps,omitempty"`
}

// ScalewayAppleSiliconMachineStatus is what was observed of the Mac as a node.
type ScalewayAppleSiliconMachineStatus struct {
	// initialization.provisioned: a host is claimed and converged.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// addresses of the Mac.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain is the zone the host is in.
	// +optional
	FailureDomain string `json:"failureDomain,omitempty"`

	// serverID of the vendor, shown to people.
	// +optional
	ServerID string `json:"serverID,omitempty"`

	// hostName is the claimed ScalewayAppleSiliconHost, shown to people.
	// +optional
	HostName string `json:"hostName,omitempty"`

	// +optional
	Bootstrap BootstrapStatus `json:"bootstrap,omitempty,omitzero"`

	// +optional
	Applied AppliedStatus `json:"applied,omitempty,omitzero"`

	// +optional
	Update UpdateStatus `json:"update,omitempty,omitzero"`

	// +optional
	Drift DriftStatus `json:"drift,omitempty,omitzero"`

	// phase is one word for people, derived from the conditions.
	// +optional
	Phase string `json:"phase,omitempty"`

	// conditions: Ready, HostClaimed, Bootstrapped, NodeReady, UpToDate, Released,
	// Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScalewayAppleSiliconMachine is one Mac as a node. The rules about providerID
// and hostRef stand here and not at spec, which could otherwise be removed whole.
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.providerID) || (has(self.spec) && has(self.spec.providerID) && self.spec.providerID == oldSelf.spec.providerID)",message="providerID is written once, when the Mac is provisioned; it can neither change nor go: leave it as it is, and delete the Machine to have another Mac"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.providerID) || !has(oldSelf.spec.hostRef) || (has(self.spec) && has(self.spec.hostRef) && self.spec.hostRef == oldSelf.spec.hostRef)",message="hostRef is settled once providerID is, for this Machine has its Mac: leave it as it is, and delete the Machine to have another"
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=samm,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Host",type=string,priority=1,JSONPath=`.spec.hostRef.name`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Up to date",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="UpToDate")].reason`
// +kubebuilder:printcolumn:name="ProviderID",type=string,priority=1,JSONPath=`.spec.providerID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalewayAppleSiliconMachine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ScalewayAppleSiliconMachineSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status ScalewayAppleSiliconMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, for the Cluster API helpers.
func (m *ScalewayAppleSiliconMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions, for the Cluster API helpers.
func (m *ScalewayAppleSiliconMachine) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
}

// ScalewayAppleSiliconMachineList is a list of machines.
//
// +kubebuilder:object:root=true
type ScalewayAppleSiliconMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalewayAppleSiliconMachine `json:"items"`
}
