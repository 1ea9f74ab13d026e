package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostFinalizer holds a Host while it is being released and wiped.
const HostFinalizer = "scalewayapplesiliconhost.infrastructure.cluster.x-k8s.io/finalizer"

// ClaimReference says who owns a host. It is set and cleared only under the
// host's resourceVersion.
type ClaimReference struct {
	// cluster is the name of the owner's Cluster.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// namespace of the owning ScalewayAppleSiliconMachine.
	// +required
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace,omitempty"`
	// name of the owning ScalewayAppleSiliconMachine; the server bears it too.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name,omitempty"`
	// token equals the owner's spec.hostRef.claimToken.
	// +required
	// +kubebuilder:validation:MinLength=1
	Token string `json:"token,omitempty"`
}

// Release is the only licence to wipe a host.
type Release struct {
	// token of the claim that is let go; a wipe checks it against the claim.
	// +required
	// +kubebuilder:validation:MinLength=1
	Token string `json:"token,omitempty"`
	// +required
	Policy ReleasePolicy `json:"policy,omitempty"`
	// poolPrefix starts the server's name once it is back in the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	PoolPrefix string `json:"poolPrefix,omitempty"`
	// osFamily is the macOS family to install; empty: the type's default.
	// +optional
	OSFamily string `json:"osFamily,omitempty"`
	// +required
	RequestedAt metav1.MicroTime `json:"requestedAt,omitempty"`
}

// HostKey is the SSH host key pinned in one install epoch.
type HostKey struct {
	// algorithm as SSH names it, e.g. ssh-ed25519.
	// +required
	Algorithm string `json:"algorithm,omitempty"`
	// sha256 is the fingerprint as OpenSSH prints it, SHA256:<base64>.
	// +required
	SHA256 string `json:"sha256,omitempty"`
	// epoch the key was seen in; a pin of another epoch does not count.
	// +required
	Epoch int64 `json:"epoch,omitempty"`
}

// PasswordAttempt says that one password was tried in one epoch. There is one
// attempt for each, because a wrong one can lock the account, and with it SSH.
type PasswordAttempt struct {
	// +required
	Epoch int64 `json:"epoch,omitempty"`
	// digest is a keyed hash of the password.
	// +required
	Digest string `json:"digest,omitempty"`
	// +required
	At metav1.MicroTime `json:"at,omitempty"`
}

// WipeRecord is the history of this disk's cleanliness.
type WipeRecord struct {
	// generation counts the wipes we asked for.
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// requiredSince: a claim was made then; only a wipe observed later makes this
	// disk clean.
	// +optional
	RequiredSince *metav1.MicroTime `json:"requiredSince,omitempty"`
	// requestedAt is recorded before the vendor is asked to reinstall.
	// +optional
	RequestedAt *metav1.MicroTime `json:"requestedAt,omitempty"`
	// startedAt: a reading that began after requestedAt showed the server
	// reinstalling. The vendor's acknowledgement alone does not count.
	// +optional
	StartedAt *metav1.MicroTime `json:"startedAt,omitempty"`
	// observedAt: a reading that began after startedAt showed the server ready and
	// delivered.
	// +optional
	ObservedAt *metav1.MicroTime `json:"observedAt,omitempty"`
}

// BootstrapRecord counts failed bootstraps of one claim.
type BootstrapRecord struct {
	// +optional
	ClaimToken string `json:"claimToken,omitempty"`
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
}

// HostRecord is what must survive a lost status.
type HostRecord struct {
	// installEpoch counts the lives of the OS on this host: it grows with each
	// wipe of ours, and with the claim of a host we have not wiped.
	// +optional
	// +kubebuilder:validation:Minimum=0
	InstallEpoch int64 `json:"installEpoch,omitempty"`
	// +optional
	HostKey *HostKey `json:"hostKey,omitempty"`
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PasswordAttempts []PasswordAttempt `json:"passwordAttempts,omitempty"`
	// +optional
	Wipe WipeRecord `json:"wipe,omitempty,omitzero"`
	// +optional
	Bootstrap BootstrapRecord `json:"bootstrap,omitempty,omitzero"`
}

// ScalewayAppleSiliconHostSpec is who owns a Mac and what must not be forgotten
// about it.
//
// +kubebuilder:validation:XValidation:rule="self.serverID == oldSelf.serverID && self.zone == oldSelf.zone",message="serverID and zone say which Mac this is and never change"
// +kubebuilder:validation:XValidation:rule="!has(self.release) || (has(self.claimRef) && self.claimRef.token == self.release.token)",message="release must carry the token of the claim it ends"
type ScalewayAppleSiliconHostSpec struct {
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
	ServerID string `json:"serverID,omitempty"`
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]{2}-[a-z]{3}-[0-9]+$`
	Zone string `json:"zone,omitempty"`
	// +optional
	ClaimRef *ClaimReference `json:"claimRef,omitempty"`
	// +optional
	Release *Release `json:"release,omitempty"`
	// +optional
	Record HostRecord `json:"record,omitempty,omitzero"`
}

// ServerStatus is the server as the vendor last showed it.
type ServerStatus struct {
	// +optional
	Name string `json:"name,omitempty"`
	// +optional
	Status string `json:"status,omitempty"`
	// +optional
	Type string `json:"type,omitempty"`
	// +optional
	Delivered bool `json:"delivered,omitempty"`
	// os is the image name first installed, e.g. macos-tahoe-26.0.
	// +optional
	OS string `json:"os,omitempty"`
	// osFamily of that image, e.g. tahoe.
	// +optional
	OSFamily string `json:"osFamily,omitempty"`
	// +optional
	IP string `json:"ip,omitempty"`
	// sshUser is the account the vendor made.
	// +optional
	SSHUser string `json:"sshUser,omitempty"`
	// deletableAt: the vendor bills until then at least.
	// +optional
	DeletableAt *metav1.Time `json:"deletableAt,omitempty"`
	// +optional
	DeletionScheduled bool `json:"deletionScheduled,omitempty"`
	// commitment as the vendor names it, e.g. duration_24h.
	// +optional
	Commitment string `json:"commitment,omitempty"`
}

// HostPhase is one word for what a host is doing. It is computed from spec and
// the last observation each time; nothing depends on the stored value.
type HostPhase string

// The phases of a host.
const (
	// HostDiscovered was seen, but the vendor has not delivered it or it is busy.
	HostDiscovered HostPhase = "Discovered"
	// HostAvailable is in the pool, clean and ready to be claimed.
	HostAvailable HostPhase = "Available"
	// HostClaimed has an owner; its name or credentials are not settled yet.
	HostClaimed HostPhase = "Claimed"
	// HostInUse has an owner, bears its name, and may be touched over SSH.
	HostInUse HostPhase = "InUse"
	// HostReleasing has a recorded release whose wipe has not started.
	HostReleasing HostPhase = "Releasing"
	// HostWiping is being reinstalled, or not yet back under its pool name.
	HostWiping HostPhase = "Wiping"
	// HostStranded bears a claim whose Machine is gone, with no release.
	HostStranded HostPhase = "Stranded"
	// HostForeign bears a name that is neither the pool's nor a live Machine's.
	HostForeign HostPhase = "Foreign"
	// HostDirty is in the pool by name, but was claimed after its last wipe.
	HostDirty HostPhase = "NotWiped"
	// HostGone is no longer at the vendor.
	HostGone HostPhase = "Gone"
)

// ScalewayAppleSiliconHostStatus is the last observation of a host.
type ScalewayAppleSiliconHostStatus struct {
	// +optional
	Phase HostPhase `json:"phase,omitempty"`
	// +optional
	Server ServerStatus `json:"server,omitempty,omitzero"`
	// shownSince: the server has borne its owner's name since then, as read back.
	// +optional
	ShownSince *metav1.MicroTime `json:"shownSince,omitempty"`
	// missingSince: a list of the zone lacked this server.
	// +optional
	MissingSince *metav1.MicroTime `json:"missingSince,omitempty"`
	// conditions: Available, NameInSync, Wiped.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ScalewayAppleSiliconHost is one physical Mac of the vendor project. To Machines
// it is what a PersistentVolume is to claims.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=sash,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.server.type`
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=`.status.server.osFamily`
// +kubebuilder:printcolumn:name="Server",type=string,JSONPath=`.status.server.name`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claimRef.name`
// +kubebuilder:printcolumn:name="Billed until",type=string,JSONPath=`.status.server.deletableAt`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ScalewayAppleSiliconHost struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec ScalewayAppleSiliconHostSpec `json:"spec,omitempty,omitzero"`
	// +optional
	Status ScalewayAppleSiliconHostStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions, for the Cluster API helpers.
func (h *ScalewayAppleSiliconHost) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions replaces the conditions, for the Cluster API helpers.
func (h *ScalewayAppleSiliconHost) SetConditions(conditions []metav1.Condition) {
	h.Status.Conditions = conditions
}

// ScalewayAppleSiliconHostList is a list of hosts.
//
// +kubebuilder:object:root=true
type ScalewayAppleSiliconHostList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalewayAppleSiliconHost `json:"items"`
}
