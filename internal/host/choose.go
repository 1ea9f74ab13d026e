package host

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Requirements is what a Machine asks of its Mac. Type and OS may be empty: any. OS is as
// OSFamily writes it.
type Requirements struct {
	Namespace, Name string
	Zone, Type, OS  string
	PoolPrefix      string
	// RefuseUnseen: no host that was never seen wiped.
	RefuseUnseen bool
	// WatchFilter: no host but those of this watch filter. Empty: all.
	WatchFilter string
	// Reserved reports that another Machine is about to claim the host of this name.
	// Nil: no host is reserved.
	Reserved func(host string) bool
	// Selector over the hosts' labels. Nil: any.
	Selector labels.Selector
	// Now tells which failures of a host are recent, and how long it has been idle.
	Now time.Time
}

// Skipped counts the hosts that cannot be taken, by reason.
type Skipped map[Skip]int

// String lists the counts, the largest first: "3 in another zone, 2 wiping".
func (s Skipped) String() string { return s.list(func(Skip) string { return "" }) }

func (s Skipped) list(note func(Skip) string) string {
	reasons := slices.SortedFunc(maps.Keys(s), func(a, b Skip) int {
		return cmp.Or(cmp.Compare(s[b], s[a]), cmp.Compare(a, b))
	})
	parts := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s%s", s[reason], reason, note(reason)))
	}
	return strings.Join(parts, ", ")
}

// Message says why there is no host for the Machine, for a condition: "no available
// host: 5 of another type (known: M2-L, M4-S)". The known types and OS families
// are those of the zone: they tell a typing error from a shortage.
func (s Skipped) Message(want Requirements, hosts []infrav1.ScalewayAppleSiliconHost) string {
	if len(s) == 0 {
		return "no available host: no host is known"
	}
	return "no available host: " + s.list(func(reason Skip) string {
		switch reason {
		case SkipType:
			return known(want, hosts, func(server infrav1.ServerStatus) string { return server.Type })
		case SkipOS:
			return known(want, hosts, func(server infrav1.ServerStatus) string { return server.OSFamily })
		}
		return ""
	})
}

// known lists the values of a fact in the zone that is required.
func known(want Requirements, hosts []infrav1.ScalewayAppleSiliconHost, fact func(infrav1.ServerStatus) string) string {
	values := map[string]bool{}
	for i := range hosts {
		if value := fact(hosts[i].Status.Server); value != "" && hosts[i].Spec.Zone == want.Zone {
			values[value] = true
		}
	}
	return " (known: " + strings.Join(slices.Sorted(maps.Keys(values)), ", ") + ")"
}

// Only reports that every host was skipped for the one reason.
func (s Skipped) Only(reason Skip) bool { return len(s) == 1 && s[reason] > 0 }

// Choose picks a host that meets the requirements, a pointer into the list, or nil; and it
// counts why the others cannot be taken. The host with the fewest recent failures is the
// best, then one that has been idle for long. Equal inputs give equal choices, and different
// Machines prefer different ones of equally good hosts, so that many Machines do not run at
// the first one.
func Choose(want Requirements, hosts []infrav1.ScalewayAppleSiliconHost) (*Host, Skipped) {
	var best candidate
	skipped := Skipped{}
	for i := range hosts {
		h := &hosts[i]
		if reason := skipReason(want, h); reason != "" {
			skipped[reason]++
			continue
		}
		if c := newCandidate(want, h); best.host == nil || c.before(best) {
			best = c
		}
	}
	return best.host, skipped
}

// Fits reports that the host could be taken for them now.
func Fits(want Requirements, h *Host) bool { return skipReason(want, h) == "" }

func skipReason(want Requirements, h *Host) Skip {
	if !Obeys(h, want.WatchFilter) {
		return SkipFilter
	}
	if h.Spec.Zone != want.Zone {
		return SkipZone
	}
	if want.Type != "" && h.Status.Server.Type != "" && h.Status.Server.Type != want.Type {
		return SkipType
	}
	if want.Selector != nil && !want.Selector.Matches(labels.Set(h.Labels)) {
		return SkipLabels // before what passes by itself: waiting would be in vain
	}
	if releaseName(want.Name, h.Spec.ServerID) {
		return SkipOwnName
	}
	if reason := Unavailable(h, want.PoolPrefix); reason != "" {
		return reason
	}
	if !ofPool(h, want.PoolPrefix) {
		return SkipNotInPool // another pool's
	}
	if want.RefuseUnseen && neverSeenWiped(h) {
		return SkipNeverWiped
	}
	if want.OS != "" && h.Status.Server.OSFamily != want.OS {
		return SkipOS
	}
	if want.Reserved != nil && want.Reserved(h.Name) {
		return SkipReserved
	}
	return ""
}

// ofPool reports that the host is in this very pool. Where no prefix is known, InPool
// also believes the name of an earlier release, which may be another pool's.
func ofPool(h *Host, prefix string) bool { return pooledName(h.Status.Server.Name, prefix) }

// candidate is a host with its worth for one Machine.
type candidate struct {
	host           *Host
	failures, idle int
	// score is that of RendezvousScore.
	score uint64
}

func newCandidate(want Requirements, h *Host) candidate {
	return candidate{host: h, failures: recentFailures(h, want.Now), idle: idleDays(h, want.Now), score: rendezvousScore(want, h)}
}

// before says which of two candidates is taken; the name breaks ties.
func (c candidate) before(other candidate) bool {
	return cmp.Or(
		cmp.Compare(c.failures, other.failures),
		cmp.Compare(other.idle, c.idle),
		cmp.Compare(other.score, c.score),
		strings.Compare(c.host.Name, other.host.Name),
	) < 0
}

// mostIdleDays: hosts that have been idle for longer are equals. A fleet at rest
// has many of those, among which its Machines spread.
const mostIdleDays = 3

// idleDays is for how many whole days the host has been free, as its last wipe and
// its object's age tell.
func idleDays(h *Host, now time.Time) int {
	since := h.CreationTimestamp.Time
	if wiped := h.Spec.Record.Wipe.ObservedAt; wiped != nil {
		since = wiped.Time
	}
	return int(min(max(now.Sub(since), 0)/(24*time.Hour), mostIdleDays))
}

// RendezvousScore is that of a host for a Machine, by rendezvous hashing: of Machines that wait for one host, the
// one with the highest is the host's first choice.
func RendezvousScore(namespace, name string, h *Host) uint64 {
	return rendezvousScore(Requirements{Namespace: namespace, Name: name}, h)
}

// rendezvousScore hashes the Machine and the host; written out, since it is done for
// every free host at each choice.
func rendezvousScore(want Requirements, h *Host) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a, 64 bits
	sum := uint64(offset)
	for _, part := range [...]string{want.Namespace, "/", want.Name, "\x00", h.Name} {
		for i := range len(part) {
			sum = (sum ^ uint64(part[i])) * prime
		}
	}
	return mix(sum)
}

// mix spreads the bits of a sum: FNV's high bits hardly change with the last
// letters, and the high bits decide here. The finalizer of MurmurHash3.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
