package reasons

import (
	"slices"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// passing are reasons that end without a person although one could do something.
var passing = []string{
	infrav1.ReasonWaitingForCluster, infrav1.ReasonNoAvailableHost, infrav1.ReasonOutOfStock, infrav1.ReasonSSHUnreachable,
	infrav1.ReasonBootstrapFailed, infrav1.ReasonReturnedToPool, infrav1.ReasonMissingSudoPassword, infrav1.ReasonHeld,
	infrav1.ReasonUpdateFailed, infrav1.ReasonWaitingForNode, infrav1.ReasonNodeNotReady, infrav1.ReasonNodeUnreachable,
	infrav1.ReasonNodeMissing,
	infrav1.ReasonDraining, infrav1.ReasonSlotsLeaked, infrav1.ReasonMacsMissing, infrav1.ReasonAgentVersionAwaited,
	infrav1.ReasonDeletionScheduled, infrav1.ReasonRetiring, infrav1.ReasonStormGuard, infrav1.ReasonClaimConflict,
	infrav1.ReasonCredentialsSealed, infrav1.ReasonNotDelivered,
}

// Asks says whether a person is needed: the book has something to do, and it does not pass.
func (b Book) Asks(reason string, conditions ...string) bool {
	entry, found := b.Find(reason, conditions...)
	return found && entry.You != "" && !Passes(reason)
}

// Passes says whether what has this reason ends without a person, although the book has
// something that one could do.
func Passes(reason string) bool { return slices.Contains(passing, reason) }
