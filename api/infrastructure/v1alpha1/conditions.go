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
	// ReasonWritesForbidden: the credentials may read, and not write.
	ReasonWritesForbidden   = "WritesForbidden"
	ReasonVendorUnreachable = "VendorUnreachable"
	ReasonVendorThrottled   = "VendorThrottled"
	ReasonUnknownZone       = "UnknownZone"

	// DestructionHeldCondition: what recovery and reclaim would destroy waits.
	DestructionHeldCondition  = "DestructionHeld"
	ReasonStormGuard          = "StormGuard"
	ReasonInventorySuspicious = "InventorySuspicious"
	ReasonVendorFailing       = "VendorFailing"
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
	ReasonOrdering              = "Ordering"
	ReasonOutOfStock            = "OutOfStock"
	ReasonQuotaExceeded         = "QuotaExceeded"
	ReasonOrderRejected         = "OrderRejected"
	ReasonOrderLimitReached     = "OrderLimitReached"
	ReasonServerGone            = "ServerGone"
	// ReasonLegacyMachine: the first system of this kind made the Machine, and its Mac
	// is taken over as it stands.
	ReasonLegacyMachine = "LegacyMachine"

	// ReasonPoolPrefixNotAllowed: spec.adoptPoolPrefix is of a pool that is not for
	// the Machine's namespace.
	ReasonPoolPrefixNotAllowed = "PoolPrefixNotAllowed"

	ReasonWaitingForHost      = "WaitingForHost"
	ReasonMissingSudoPassword = "MissingSudoPassword"
	ReasonCredentialsSealed   = "CredentialsSealed"
	ReasonSSHUnreachable      = "SSHUnreachable"
	ReasonHostKeyMismatch     = "HostKeyMismatch"
	ReasonEndpointUnknown     = "EndpointUnknown"
	// ReasonDifferentCluster: the Mac is a node of another cluster than this, as after a move.
	ReasonDifferentCluster = "DifferentCluster"
	ReasonRunning          = "Running"
	ReasonBootstrapFailed  = "BootstrapFailed"
	// ReasonRebootingForRecovery: the one reboot of this claim, or one that a person asked for,
	// holds attempts back.
	ReasonRebootingForRecovery = "RebootingForRecovery"
	// ReasonBootstrapExhausted: a tier of recovery is due, and this Mac may not have it, or its
	// wipe is held back. Attempts go on.
	ReasonBootstrapExhausted = "BootstrapExhausted"
	// ReasonReturnedToPool: the host goes back to be wiped; another is claimed.
	ReasonReturnedToPool = "ReturnedToPool"

	ReasonWaitingForNode = "WaitingForNode"
	ReasonNodeNotReady   = "NodeNotReady"
	// ReasonNodeUnreachable: the control plane has not heard of the Node for a while.
	ReasonNodeUnreachable    = "NodeUnreachable"
	ReasonNodeMissing        = "NodeMissing"
	ReasonProviderIDMismatch = "ProviderIDMismatch"

	// UpToDateCondition: the Mac is as its profile wants it.
	UpToDateCondition = "UpToDate"
	// ReasonDrifted: the profile wants another revision, or a check found that the
	// Mac was changed.
	ReasonDrifted      = "Drifted"
	ReasonUpdating     = "Updating"
	ReasonUpdateFailed = "UpdateFailed"
	// (ReasonHeld: the change waits for something that is nobody's failure.)

	// ReasonInvalidProfile: the profile asks for something that cannot be.
	ReasonInvalidProfile = "InvalidProfile"
	// ReasonWrongHardware: another Mac answers than in this install epoch, or
	// none of Apple's.
	ReasonWrongHardware = "WrongHardware"
	// ReasonFileVault: the disk is locked at each boot until a person comes.
	ReasonFileVault = "FileVault"

	// SlotsHealthyCondition: every place for a macOS guest that Apple's licence allows
	// can be used. It is there once one could not.
	SlotsHealthyCondition = "LicenseSlotsHealthy"
	ReasonSlotsUsable     = "AllSlotsUsable"
	// ReasonSlotsLeaked: macOS counts guests that are gone; the Mac is rebooted once
	// that disturbs nobody.
	ReasonSlotsLeaked       = "SlotsLeaked"
	ReasonRebootingForSlots = "RebootingForSlots"
	// ReasonSlotsStillLeaked: a reboot did not help, or not for long.
	ReasonSlotsStillLeaked = "SlotsStillLeaked"

	ReasonDraining       = "Draining"
	ReasonLeaving        = "Leaving"
	ReasonReleasing      = "Releasing"
	ReasonReleaseBlocked = "ReleaseBlocked"
	ReasonReleaseSkipped = "ReleaseSkipped"
	ReasonDetached       = "Detached"
)

// Conditions of a MacNodeProfile and their reasons.
const (
	// RolledOutCondition: every Mac is at the revision.
	RolledOutCondition = "RolledOut"
	// HaltedCondition: the rollout has stopped by itself.
	HaltedCondition = "Halted"

	ReasonRollingOut    = "RollingOut"
	ReasonRolloutPaused = "RolloutPaused"
	ReasonCanaryFailed  = "CanaryFailed"
	ReasonFailedInARow  = "FailedInARow"
	ReasonNotHalted     = "NotHalted"
	ReasonRolloutHalted = "RolloutHalted"
	ReasonMacsMissing   = "MacsMissing"
	// ReasonNodeNotKept: a Node refuses the labels and taints that the profile
	// wants on it.
	ReasonNodeNotKept         = "NodeNotKept"
	ReasonAgentVersionAwaited = "AgentVersionAwaited"
	ReasonAgentUpdated        = "AgentUpdated"
)

// Conditions of a ScalewayAppleSiliconHost and their reasons.
const (
	AvailableCondition  = "Available"
	NameInSyncCondition = "NameInSync"
	WipedCondition      = "Wiped"
	// KeptOutCondition: a person or the ladder keeps the host out of the pool, or out of
	// everything. It is there while that is so.
	KeptOutCondition = "KeptOut"
	// ReachableCondition is what the vendor's connectivity diagnostic says.
	ReachableCondition = "Reachable"

	ReasonNotDelivered      = "NotDelivered"
	ReasonServerBusy        = "ServerBusy"
	ReasonDeletionScheduled = "DeletionScheduled"
	ReasonRenaming          = "Renaming"
	ReasonChangedByOther    = "ChangedByOther"
	ReasonWipeRequested     = "WipeRequested"
	ReasonReinstalling      = "Reinstalling"
	ReasonReinstallFailed   = "ReinstallFailed"
	ReasonNotWiped          = "NotWiped"
	ReasonWipeTimedOut      = "WipeTimedOut"
	ReasonWipeRejected      = "WipeRejected"
	ReasonQuarantined       = "Quarantined"
	ReasonMaintenance       = "Maintenance"
	ReasonRetiring          = "Retiring"
	ReasonHandedOver        = "HandedOver"
)
