package v1alpha1

// Condition types shared by our kinds.
const (
	// ReadyCondition sums up the whole life, deletion included.
	ReadyCondition = "Ready"
	// PausedCondition says that the object or its Cluster is paused.
	PausedCondition = "Paused"
)

// Conditions of a ScalewayAppleSiliconCluster and their reasons.
const (
	CredentialsValidCondition = "CredentialsValid"
	InventorySyncedCondition  = "InventorySynced"

	ReasonCredentialsRejected = "CredentialsRejected"
	ReasonVendorUnreachable   = "VendorUnreachable"
	ReasonVendorThrottled     = "VendorThrottled"
	ReasonUnknownZone         = "UnknownZone"
)

// Conditions of a ScalewayAppleSiliconMachine and their reasons.
const (
	HostClaimedCondition  = "HostClaimed"
	BootstrappedCondition = "Bootstrapped"
	NodeReadyCondition    = "NodeReady"
	ReleasedCondition     = "Released"

	ReasonWaitingForCluster     = "WaitingForCluster"
	ReasonNoAvailableHost       = "NoAvailableHost"
	ReasonNoHostInFailureDomain = "NoHostInFailureDomain"
	ReasonNoAdoptPoolPrefix     = "NoAdoptPoolPrefix"
	ReasonClaimConflict         = "ClaimConflict"
	ReasonClaimLost             = "ClaimLost"
	ReasonUnknownProfile        = "UnknownProfile"
	ReasonFleetKeyUnavailable   = "FleetKeyUnavailable"
	ReasonClaiming              = "Claiming"

	ReasonWaitingForHost      = "WaitingForHost"
	ReasonMissingSudoPassword = "MissingSudoPassword"
	ReasonCredentialsSealed   = "CredentialsSealed"
	ReasonSSHUnreachable      = "SSHUnreachable"
	ReasonHostKeyMismatch     = "HostKeyMismatch"
	ReasonEndpointUnknown     = "EndpointUnknown"
	ReasonRunning             = "Running"
	ReasonBootstrapFailed     = "BootstrapFailed"

	ReasonWaitingForNode     = "WaitingForNode"
	ReasonNodeNotReady       = "NodeNotReady"
	ReasonNodeMissing        = "NodeMissing"
	ReasonProviderIDMismatch = "ProviderIDMismatch"

	ReasonDraining       = "Draining"
	ReasonLeaving        = "Leaving"
	ReasonReleasing      = "Releasing"
	ReasonReleaseBlocked = "ReleaseBlocked"
	ReasonReleaseSkipped = "ReleaseSkipped"
)

// Conditions of a ScalewayAppleSiliconHost and their reasons.
const (
	AvailableCondition  = "Available"
	NameInSyncCondition = "NameInSync"
	WipedCondition      = "Wiped"

	ReasonNotDelivered      = "NotDelivered"
	ReasonServerBusy        = "ServerBusy"
	ReasonDeletionScheduled = "DeletionScheduled"
	ReasonRenaming          = "Renaming"
	ReasonChangedByOther    = "ChangedByOther"
	ReasonWipeRequested     = "WipeRequested"
	ReasonReinstalling      = "Reinstalling"
	ReasonReinstallFailed   = "ReinstallFailed"
	ReasonNotWiped          = "NotWiped"
)
