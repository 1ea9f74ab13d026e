package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostKey is the SSH host key pinned in one install epoch.
type HostKey struct {
	// algorithm as SSH names it, e.g. ssh-ed25519.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Algorithm string `json:"algorithm,omitempty"`
	// sha256 is the fingerprint as OpenSSH prints it, SHA256:<base64>.
	// +required
	// +kubebuilder:validation:MaxLength=128
	SHA256 string `json:"sha256,omitempty"`
	// epoch the key was seen in; a pin of another epoch does not count.
	// +required
	Epoch int64 `json:"epoch,omitempty"`
}

// PasswordAttempt says that one password was tried in one epoch. There is one
// attempt for each, because a wrong one can lock the account, and with it SSH.
type PasswordAttempt struct {
	// epoch is the install epoch that the password was tried in.
	// +required
	Epoch int64 `json:"epoch,omitempty"`
	// digest is a keyed hash of the password.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Digest string `json:"digest,omitempty"`
	// at is when the attempt was recorded, just before it was made.
	// +required
	At metav1.MicroTime `json:"at,omitempty"`
}

// HostHardware is which Mac stands behind the server. It outlives reinstalls.
type HostHardware struct {
	// serial number.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Serial string `json:"serial,omitempty"`
	// platformUUID is the board's (IOPlatformUUID).
	// +optional
	// +kubebuilder:validation:MaxLength=64
	PlatformUUID string `json:"platformUUID,omitempty"`
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
	// returnedAt: the vendor answered, in a Terminate, that it deleted the server. Only
	// from then on lists are expected to lack it. A deletion that is scheduled for the
	// billing floor does not count: status.server says when it is due.
	// +optional
	ReturnedAt *metav1.MicroTime `json:"returnedAt,omitempty"`
	// repeats counts how often this wipe was asked for again after it timed out.
	// +optional
	Repeats int32 `json:"repeats,omitempty"`
}

// BootstrapRecord counts failed bootstraps of one claim.
type BootstrapRecord struct {
	// claimToken is the token of the claim that the rest is about.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	ClaimToken string `json:"claimToken,omitempty"`
	// attempts of this claim that failed.
	// +optional
	Attempts int32 `json:"attempts,omitempty"`
	// rebootIssued: the vendor took the one reboot of this claim's recovery.
	// +optional
	RebootIssued bool `json:"rebootIssued,omitempty"`
	// attemptsAtReboot is how many attempts had failed when the vendor took that reboot.
	// +optional
	AttemptsAtReboot int32 `json:"attemptsAtReboot,omitempty"`
	// firstFailedAt is when the first of these attempts failed.
	// +optional
	FirstFailedAt *metav1.Time `json:"firstFailedAt,omitempty"`
	// tokenID names the bootstrap token that was made for this Mac to join with, while
	// it may. It is written before the token exists; only who logs in with this token
	// gets a first certificate, and only for the Node of the claim's name.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TokenID string `json:"tokenID,omitempty"`
}

// RegistrationRecord names the labels and taints that this Mac was told to register its
// Node with, in this install and for this claim. It is written before the Mac is told.
// Once the profile wants one of them no more, it is taken off a Node that was not
// looked at before.
type RegistrationRecord struct {
	// labels by key.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=317
	Labels []string `json:"labels,omitempty"`
	// taints by key and effect, "key:effect".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=512
	Taints []string `json:"taints,omitempty"`
}

// Failure is one claim that came to nothing on this host.
type Failure struct {
	// time of the failure.
	// +required
	Time metav1.Time `json:"time,omitempty"`
	// reason in one word or two.
	// +required
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`
}

// FailureRecord remembers the hardware's failures. It outlives Machines.
type FailureRecord struct {
	// count of all failures ever.
	// +optional
	Count int64 `json:"count,omitempty"`
	// recent failures, the oldest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Recent []Failure `json:"recent,omitempty"`
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
	// hardware that was seen at the first contact of all, and is the same in each
	// install epoch. A Mac that shows another is sent no password.
	// +optional
	Hardware *HostHardware `json:"hardware,omitempty"`
	// passwordAttempts are the attempts that the user's password had, the oldest first: one
	// for each password in each install epoch.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	PasswordAttempts []PasswordAttempt `json:"passwordAttempts,omitempty"`
	// +optional
	Wipe WipeRecord `json:"wipe,omitempty,omitzero"`
	// +optional
	Bootstrap BootstrapRecord `json:"bootstrap,omitempty,omitzero"`
	// +optional
	Registration *RegistrationRecord `json:"registration,omitempty"`
	// detachedAt: the claim was cleared then without a wipe. Until the host is
	// wiped or claimed again no Node may bear its providerID.
	// +optional
	DetachedAt *metav1.MicroTime `json:"detachedAt,omitempty"`
	// handedOverAt: the owner was moved to another management cluster then. The
	// host is that cluster's, and nothing is done to it here.
	// +optional
	HandedOverAt *metav1.MicroTime `json:"handedOverAt,omitempty"`
	// disturbedAt is when a recovery or the sweep last began something destructive
	// here by itself; the storm guard counts these.
	// +optional
	DisturbedAt *metav1.MicroTime `json:"disturbedAt,omitempty"`
	// ordered: we had this server made; its claim ends in Terminate unless its
	// Machine says otherwise.
	// +optional
	Ordered bool `json:"ordered,omitempty"`
	// orderedFor is the MacNodeProfile, <namespace>/<name>, whose maxOrdered counts
	// this server, whoever has it since.
	// +optional
	// +kubebuilder:validation:MaxLength=317
	OrderedFor string `json:"orderedFor,omitempty"`
}
