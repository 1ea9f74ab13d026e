package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// HostFinalizer on a host holds it while it is being released and wiped. Written by macfleet.
const HostFinalizer = "scalewayapplesiliconhost.infrastructure.cluster.x-k8s.io/finalizer"

// Labels of hosts that tell facts about the Mac, for host selectors. Sizes are
// decimal, as the vendor sells them.
const (
	// LabelType on a host is its server type, such as M2-L. Written by macfleet.
	LabelType = "infrastructure.cluster.x-k8s.io/type"
	// LabelChip on a host is its chip, such as apple-m2-pro. Written by macfleet.
	LabelChip = "infrastructure.cluster.x-k8s.io/chip"
	// LabelMemory on a host is its memory in GB, such as 16. Written by macfleet.
	LabelMemory = "infrastructure.cluster.x-k8s.io/memory-gb"
	// LabelDisk on a host is the size of its disk in GB, such as 512. Written by macfleet.
	LabelDisk = "infrastructure.cluster.x-k8s.io/disk-gb"
	// LabelOS on a host is its macOS family, such as tahoe. Written by macfleet.
	LabelOS = "infrastructure.cluster.x-k8s.io/os"
)

// OrderedCondition of a Host that is an order: False with why there is no server yet.
const OrderedCondition = "Ordered"

// ClaimReference says who owns a host. It is set and cleared only under the
// host's resourceVersion.
type ClaimReference struct {
	// cluster is the name of the owner's Cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`
	// namespace of the owning ScalewayAppleSiliconMachine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// name of the owning ScalewayAppleSiliconMachine; the server bears it too. In the
	// claim of an adoption it is the server's own, as people chose it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name,omitempty"`
	// token equals the owner's spec.hostRef.claimToken.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Token string `json:"token,omitempty"`
	// uid of the owner's object. It alone may change while the claim stands: the
	// owner was created again, from a backup or by a move. Empty: the claim was
	// made before this field was known.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.size() <= 64",message="is longer than 64 characters"
	UID types.UID `json:"uid,omitempty"`
}

// ReleaseOrigin says who recorded a release.
// +kubebuilder:validation:Enum=Machine;Recovery;Reclaim;Adoption;Unseen
type ReleaseOrigin string

// The origins of a release. What Recovery, Reclaim and Unseen begin is bounded by the
// storm guard.
const (
	// OriginMachine: the Machine was deleted.
	OriginMachine ReleaseOrigin = "Machine"
	// OriginRecovery: the Machine lives on, with another host or another OS.
	OriginRecovery ReleaseOrigin = "Recovery"
	// OriginReclaim: the sweep took back a stranded host.
	OriginReclaim ReleaseOrigin = "Reclaim"
	// OriginAdoption: a person took a foreign host into the pool.
	OriginAdoption ReleaseOrigin = "Adoption"
	// OriginUnseen: a host of the pool that was never seen wiped is wiped before it is
	// used, since the manager does not trust such hosts.
	OriginUnseen ReleaseOrigin = "Unseen"
)

// Release is the only licence to wipe a host.
type Release struct {
	// token of the claim that is let go; a wipe checks it against the claim.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Token string `json:"token,omitempty"`
	// +required
	// +kubebuilder:validation:Enum=Recycle;Terminate;Reinstall
	Policy ReleasePolicy `json:"policy,omitempty"`
	// origin says who recorded this. Default: Machine.
	// +optional
	Origin ReleaseOrigin `json:"origin,omitempty"`
	// poolPrefix starts the server's name once it is back in the pool. Only a
	// Recycle needs it.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PoolPrefix string `json:"poolPrefix,omitempty"`
	// osFamily is the macOS family to install; empty: the type's default.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	OSFamily string `json:"osFamily,omitempty"`
	// requestedAt is when the release was recorded.
	// +required
	RequestedAt metav1.MicroTime `json:"requestedAt,omitempty"`
}

// OrderRequest is a server that is being ordered. It is looked up by its name
// before each create: the vendor knows no idempotency key.
type OrderRequest struct {
	// name of the server to come: the owning Machine's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// type is the vendor's server type.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Type string `json:"type,omitempty"`
	// os is the macOS family to install; empty: the type's default.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	OS string `json:"os,omitempty"`
	// zone of the vendor to order in, such as fr-par-1.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]{2}-[a-z]{3}-[0-9]+$`
	// +kubebuilder:validation:MaxLength=32
	Zone string `json:"zone,omitempty"`
	// profile is the MacNodeProfile, <namespace>/<name>, whose maxOrdered counts this
	// order and its server.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	Profile string `json:"profile,omitempty"`
	// attemptedAt is recorded before the vendor is asked. The answer may be lost:
	// nothing is asked again before later lists show that no server came of it.
	// +optional
	AttemptedAt *metav1.MicroTime `json:"attemptedAt,omitempty"`
}

// Maintenance keeps a host out of the pool, and from being wiped, rebooted, renamed or
// recovered. A rollout still reaches the Mac of a Machine.
type Maintenance struct {
	// reason is shown to people.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// Quarantine keeps a host out of the pool for a while. It ends no claim.
type Quarantine struct {
	// reason is shown to people.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// until is when it ends by itself; unset: when a person removes it.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// RebootRequest asks for one reboot. The vendor's reboot is a power cut.
type RebootRequest struct {
	// id names the request; status.lastReboot bears it once the vendor took it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	ID string `json:"id,omitempty"`
	// reason is shown to people.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// force: also while the host's Node is Ready and has Pods. Without it the
	// reboot waits until it would disturb nobody.
	// +optional
	Force bool `json:"force,omitempty"`
}

// Adoption is a person's word that a foreign host may join the pool.
type Adoption struct {
	// poolPrefix of the pool to join.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*)-$`
	PoolPrefix string `json:"poolPrefix,omitempty"`
	// trustDisk: rename only, wipe nothing. The person answers for the disk.
	// +optional
	TrustDisk bool `json:"trustDisk,omitempty"`
	// serverName is what the server was named before it was renamed; the manager notes
	// it first. A server that bears neither that name nor one of the pool has been
	// renamed by somebody else since, and is left to them. Written by macfleet.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ServerName string `json:"serverName,omitempty"`
}

// ScalewayAppleSiliconHostSpec is who owns a Mac and what must not be forgotten
// about it. People edit maintenance, quarantine, reboot, adopt and acceptSerial.
//
// +kubebuilder:validation:XValidation:rule="has(self.serverID) == has(oldSelf.serverID) && (!has(self.serverID) || self.serverID == oldSelf.serverID) && self.zone == oldSelf.zone",message="serverID and zone say which Mac this is and never change"
// +kubebuilder:validation:XValidation:rule="has(self.serverID) != has(self.order)",message="a host is a server, or the order of one: set serverID or order"
// +kubebuilder:validation:XValidation:rule="!has(self.release) || (has(self.claimRef) && self.claimRef.token == self.release.token)",message="release must carry the token of the claim it ends"
// +kubebuilder:validation:XValidation:rule="!has(self.release) || self.release.policy != 'Recycle' || (has(self.release.poolPrefix) && self.release.poolPrefix.size() > 0)",message="a release to the pool names its poolPrefix"
// +kubebuilder:validation:XValidation:rule="!has(self.claimRef) || !has(oldSelf.claimRef) || (self.claimRef.__namespace__ == oldSelf.claimRef.__namespace__ && self.claimRef.name == oldSelf.claimRef.name && self.claimRef.token == oldSelf.claimRef.token && has(self.claimRef.cluster) == has(oldSelf.claimRef.cluster) && (!has(self.claimRef.cluster) || self.claimRef.cluster == oldSelf.claimRef.cluster))",message="a claim is never changed into another: it ends first, then the host can be claimed again; only its uid may follow an owner that was created again"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.record) || !has(oldSelf.record.wipe) || !has(oldSelf.record.wipe.requiredSince) || (has(self.record) && has(self.record.wipe) && has(self.record.wipe.requiredSince) && self.record.wipe.requiredSince >= oldSelf.record.wipe.requiredSince)",message="record.wipe.requiredSince remembers that the disk was owned; it neither goes nor moves back"
type ScalewayAppleSiliconHostSpec struct {
	// serverID of the vendor; unset while the server is being ordered. Written by macfleet.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`
	ServerID string `json:"serverID,omitempty"`
	// zone of the vendor that the server is in, such as fr-par-1. Written by macfleet.
	// +required
	// +kubebuilder:validation:Pattern=`^[a-z]{2}-[a-z]{3}-[0-9]+$`
	// +kubebuilder:validation:MaxLength=32
	Zone string `json:"zone,omitempty"`
	// claimRef says who owns the host. It is set and cleared only under the host's
	// resourceVersion. Written by macfleet.
	// +optional
	ClaimRef *ClaimReference `json:"claimRef,omitempty"`
	// release is the only licence to wipe the host. Written by macfleet.
	// +optional
	Release *Release `json:"release,omitempty"`
	// order in progress: a Host before it is a server. Written by macfleet.
	// +optional
	Order *OrderRequest `json:"order,omitempty"`
	// record is what must survive a lost status. Written by macfleet.
	// +optional
	Record HostRecord `json:"record,omitempty,omitzero"`
	// failures of the hardware. They outlive Machines. Written by macfleet.
	// +optional
	Failures FailureRecord `json:"failures,omitempty,omitzero"`

	// maintenance keeps the host out of the pool and of every automatic act.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`
	// quarantine keeps the host out of the pool.
	// +optional
	Quarantine *Quarantine `json:"quarantine,omitempty"`
	// reboot asks for one reboot.
	// +optional
	Reboot *RebootRequest `json:"reboot,omitempty"`
	// adopt takes a foreign host into the pool.
	// +optional
	Adopt *Adoption `json:"adopt,omitempty"`
	// acceptSerial is the serial number of the Mac that the vendor put in the place of
	// the one in record.hardware. The next contact with it records that Mac, and
	// removes this field.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z-]+$`
	AcceptSerial string `json:"acceptSerial,omitempty"`
}

// ServerStatus is the server as the vendor last showed it.
type ServerStatus struct {
	// name that the server bears.
	// +optional
	Name string `json:"name,omitempty"`
	// status in the vendor's words, such as ready or reinstalling.
	// +optional
	Status string `json:"status,omitempty"`
	// type of the server, such as M2-L.
	// +optional
	Type string `json:"type,omitempty"`
	// delivered is true once the vendor has handed the server over.
	// +optional
	Delivered bool `json:"delivered,omitempty"`
	// os is the image name first installed, e.g. macos-tahoe-26.0.
	// +optional
	OS string `json:"os,omitempty"`
	// osFamily of that image, e.g. tahoe.
	// +optional
	OSFamily string `json:"osFamily,omitempty"`
	// ip is the address that the Mac is reached at.
	// +optional
	IP string `json:"ip,omitempty"`
	// sshUser is the account the vendor made.
	// +optional
	SSHUser string `json:"sshUser,omitempty"`
	// deletableAt: the vendor bills until then at least.
	// +optional
	DeletableAt *metav1.Time `json:"deletableAt,omitempty"`
	// deletionScheduled: the vendor is to delete the server.
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
	// HostOrdering is an order whose server does not exist yet.
	HostOrdering HostPhase = "Ordering"
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
	// HostRetiring is wiped and given back to the vendor, at its floor.
	HostRetiring HostPhase = "Retiring"
	// HostQuarantined is kept out of the pool for a while.
	HostQuarantined HostPhase = "Quarantined"
	// HostMaintenance is kept out of the pool by a person.
	HostMaintenance HostPhase = "Maintenance"
	// HostHandedOver belongs to another management cluster since a move.
	HostHandedOver HostPhase = "HandedOver"
	// HostStranded bears a claim whose Machine is gone, with no release.
	HostStranded HostPhase = "Stranded"
	// HostForeign bears a name that is neither the pool's nor a live Machine's.
	HostForeign HostPhase = "Foreign"
	// HostDirty is in the pool by name, but was claimed after its last wipe.
	HostDirty HostPhase = "NotWiped"
	// HostGone is no longer at the vendor.
	HostGone HostPhase = "Gone"
)

// RebootStatus is a reboot that the vendor took.
type RebootStatus struct {
	// id of the request.
	// +optional
	ID string `json:"id,omitempty"`
	// at is when the vendor took it.
	// +optional
	At metav1.MicroTime `json:"at,omitempty,omitzero"`
}

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
	// lastReboot that was made for a request.
	// +optional
	LastReboot RebootStatus `json:"lastReboot,omitempty,omitzero"`
	// conditions: Available, NameInSync, Wiped, CredentialsStaged, Reachable,
	// Retired, Rebooted, Reclaimed, Adopted.
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
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.server.type`
// +kubebuilder:printcolumn:name="OS",type=string,priority=1,JSONPath=`.status.server.osFamily`
// +kubebuilder:printcolumn:name="Server",type=string,priority=1,JSONPath=`.status.server.name`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claimRef.name`
// +kubebuilder:printcolumn:name="Kept out",type=string,JSONPath=`.status.conditions[?(@.type=="KeptOut")].reason`
// +kubebuilder:printcolumn:name="Billed until",type=string,priority=1,JSONPath=`.status.server.deletableAt`
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
