package scaleway

import (
	"cmp"
	"crypto/rand"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"k8s.io/utils/clock"
)

// Identifiers a sandbox works with when its options name none. The secret opens
// nothing but a simulated vendor.
const (
	DefaultSecretKey      = "5ca1e000-0000-4000-8000-000000000001"
	DefaultAccessKey      = "SCWSANDBOX0000000000"
	DefaultProjectID      = "5ca1e000-0000-4000-8000-0000000000aa"
	DefaultOrganizationID = "5ca1e000-0000-4000-8000-0000000000bb"
)

// Username is the administrator on every delivered Mac, as recorded on all types.
const Username = "m1"

// NoFloor as [Options.Floor] lets servers be deleted at once, as in the vendor's
// own test organisations, where the recordings come from.
const NoFloor = time.Duration(-1)

// appleLease is the shortest lease that Apple's licence allows; the documented
// minimum_lease_duration of every type.
const appleLease = 24 * time.Hour

// Timings are how long the vendor takes, at scale 1. Delivery is per type and
// stands in [ServerType].
type Timings struct {
	// OtherOS is added to a delivery with an image that is not the type's default (documented).
	OtherOS time.Duration
	// Reboot is from the request to ready (recorded: 104 to 134 s).
	Reboot time.Duration
	// Reinstall is from the request to ready (observed: 15 to 20 min).
	Reinstall time.Duration
	// VPC is how long vpc_status stays vpc_updating after a PATCH (recorded: up to 54 s).
	VPC time.Duration
	// Touch is how often updated_at moves while a server starts, reboots or changes
	// its vpc_status (recorded: about 10 s).
	Touch time.Duration
	// Diagnostic is how long a connectivity diagnostic is processed (INF).
	Diagnostic time.Duration
	// SealedWindow is how long [SealWindow] seals after a server became ready.
	SealedWindow time.Duration
}

// DefaultTimings are the recorded medians, and for the reinstall the middle of
// what operators reported.
func DefaultTimings() Timings {
	return Timings{
		OtherOS:      time.Hour,
		Reboot:       120 * time.Second,
		Reinstall:    17 * time.Minute,
		VPC:          30 * time.Second,
		Touch:        10 * time.Second,
		Diagnostic:   30 * time.Second,
		SealedWindow: time.Minute,
	}
}

// Options configure a [Vendor]. The zero value is a vendor in real time with the
// default identifiers and no hardware behind it.
type Options struct {
	// Clock is the vendor's clock, and the source of every date in answers. Default: the real one.
	Clock clock.WithTicker
	// TimeScale divides all delays and floors; 60 makes a minute a second. Default 1.
	TimeScale float64
	// Timings default to [DefaultTimings]; a zero Timings makes everything instant.
	Timings *Timings
	// Floor is how long a new server cannot be deleted, at scale 1. Default 24 h; see [NoFloor].
	Floor time.Duration
	// SecretKeys are the keys that X-Auth-Token may carry. Default: [DefaultSecretKey].
	SecretKeys []string
	// ProjectID owns pool servers whose spec names no project. Default: [DefaultProjectID].
	ProjectID string
	// OrganizationID owns everything. Default: [DefaultOrganizationID].
	OrganizationID string
	// Zones are the zones that exist. Default: fr-par-1 and fr-par-3.
	Zones []string
	// Catalogue defaults to [DefaultCatalogue].
	Catalogue *Catalogue
	// Knobs are what can be turned later too, with [Vendor.Turn].
	Knobs Knobs
	// KeysOnReboot injects the project's SSH keys at a reboot too. The vendor's
	// documentation contradicts itself here.
	KeysOnReboot bool
	// PageSize is used for lists when the client sends none. Default 20 (INF, from sibling APIs).
	PageSize int
	// Hardware is told what happens to the Macs. Default: nothing is.
	Hardware Hardware
	// AllocateIP gives a new server its address, ReleaseIP takes it back after the
	// server is gone; neither may call the vendor. Default: addresses of
	// 198.18.0.0/15, never reused.
	AllocateIP func(serverID string) (netip.Addr, error)
	ReleaseIP  func(serverID string, ip netip.Addr)
	// JournalLimit bounds the journal; the oldest entries go first. Default 100,000.
	JournalLimit int
	// Inline has everything happen on the callers' goroutines: the vendor starts
	// none, lets time pass only when it is called, does the hardware's work before
	// it answers, and waits for no fault's delay: one of 30 s, the SDK's patience, or
	// more is a timeout, any other is no delay. For tests under a virtual clock.
	Inline bool
	// Random is where identifiers and passwords come from. Default: crypto/rand.
	Random io.Reader
	// Logger gets one line per transition. Default: none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.TimeScale = cmp.Or(o.TimeScale, 1)
	o.Floor = cmp.Or(o.Floor, appleLease)
	o.ProjectID = cmp.Or(o.ProjectID, DefaultProjectID)
	o.OrganizationID = cmp.Or(o.OrganizationID, DefaultOrganizationID)
	o.PageSize = cmp.Or(o.PageSize, 20)
	o.JournalLimit = cmp.Or(o.JournalLimit, 100_000)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Timings == nil {
		timings := DefaultTimings()
		o.Timings = &timings
	}
	if o.Catalogue == nil {
		catalogue := DefaultCatalogue()
		o.Catalogue = &catalogue
	}
	if len(o.SecretKeys) == 0 {
		o.SecretKeys = []string{DefaultSecretKey}
	}
	if len(o.Zones) == 0 {
		o.Zones = []string{"fr-par-1", "fr-par-3"}
	}
	if o.AllocateIP == nil {
		o.AllocateIP = sequentialIPs(netip.MustParseAddr("198.18.0.0"))
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.SecretKeys = slices.Clone(o.SecretKeys)
	return o
}

// sequentialIPs hands out the addresses after base. The vendor calls it under its lock.
func sequentialIPs(base netip.Addr) func(string) (netip.Addr, error) {
	return func(string) (netip.Addr, error) {
		base = base.Next()
		return base, nil
	}
}
