package host

// Skip is why a host cannot be taken, in words that follow a number.
type Skip string

// Why hosts are skipped. Taken hosts have none.
const (
	SkipZone      Skip = "in another zone"
	SkipType      Skip = "of another type"
	SkipOS        Skip = "with another OS"
	SkipClaimed   Skip = "claimed"
	SkipReserved  Skip = "being claimed"
	SkipWiping    Skip = "wiping"
	SkipRemoved   Skip = "being removed"
	SkipUnseen    Skip = "not seen yet"
	SkipMissing   Skip = "missing from the vendor's list"
	SkipNotInPool Skip = "not in the pool"
	SkipScheduled Skip = "scheduled for deletion"
	SkipUndeliv   Skip = "not delivered"
	SkipBusy      Skip = "busy at the vendor"
	SkipDirty     Skip = "not wiped since the last claim"
	SkipNamed     Skip = "named after a Machine"
	// SkipNeverWiped: where hosts with an unknown past are not trusted.
	SkipNeverWiped Skip = "never seen wiped"

	SkipOrder       Skip = "still being ordered"
	SkipRetiring    Skip = "retiring"
	SkipHandedOver  Skip = "handed over to another management cluster"
	SkipQuarantined Skip = "quarantined"
	SkipMaintenance Skip = "in maintenance"
	SkipAdopting    Skip = "being adopted"

	// SkipOwnName: it would look free under the Machine's name. A name that ends in the
	// server's id is a pool name.
	SkipOwnName Skip = "with an id that the Machine's name ends in"
	// SkipFilter: another manager works for it.
	SkipFilter Skip = "of another watch filter"
	// SkipLabels: the Machine's hostSelector leaves it out.
	SkipLabels Skip = "not matched by the host selector"
)
