package host

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Wish is what a Machine asks of its Mac. Type and OS may be empty: any.
type Wish struct {
	Namespace, Name string
	Zone, Type, OS  string
	PoolPrefix      string
}

// Choice is the host to take; its zero value is none.
type Choice struct {
	// Host is a pointer into the list that was chosen from.
	Host *Host
}

// Found reports that there is a host to take.
func (c Choice) Found() bool { return c.Host != nil }

// Skipped counts the hosts that cannot be taken, by reason.
type Skipped map[Skip]int

// String lists the counts, the largest first: "3 in another zone, 2 wiping".
func (s Skipped) String() string {
	reasons := slices.SortedFunc(maps.Keys(s), func(a, b Skip) int {
		if s[a] != s[b] {
			return s[b] - s[a]
		}
		return strings.Compare(string(a), string(b))
	})
	parts := make([]string, 0, len(reasons))
	for _, reason := range reasons {
		parts = append(parts, fmt.Sprintf("%d %s", s[reason], reason))
	}
	return strings.Join(parts, ", ")
}

// Message says why there is no host, for a condition.
func (s Skipped) Message() string {
	if len(s) == 0 {
		return "no available host: no host is known"
	}
	return "no available host: " + s.String()
}

// Only reports that every host was skipped for the one reason.
func (s Skipped) Only(reason Skip) bool { return len(s) == 1 && s[reason] > 0 }

// Choose picks a host for the wish and counts why the others cannot be taken.
// Equal inputs give equal choices, and different Machines prefer different
// hosts, so that many Machines do not run at the first one.
func Choose(w Wish, hosts []infrav1.ScalewayAppleSiliconHost) (Choice, Skipped) {
	var best *Host
	skipped := Skipped{}
	for i := range hosts {
		h := &hosts[i]
		if reason := unfit(w, h); reason != "" {
			skipped[reason]++
			continue
		}
		if best == nil || prefers(w, h, best) {
			best = h
		}
	}
	return Choice{best}, skipped
}

func unfit(w Wish, h *Host) Skip {
	if h.Spec.Zone != w.Zone {
		return SkipZone
	}
	if w.Type != "" && h.Status.Server.Type != "" && h.Status.Server.Type != w.Type {
		return SkipType
	}
	if reason := Unavailable(h, w.PoolPrefix); reason != "" {
		return reason
	}
	if !strings.HasPrefix(h.Status.Server.Name, w.PoolPrefix) || w.PoolPrefix == "" {
		return SkipNotInPool // another pool's
	}
	if w.OS != "" && h.Status.Server.OSFamily != w.OS {
		return SkipOS
	}
	return ""
}

// prefers orders hosts for one wish by rendezvous hashing; the name breaks ties.
func prefers(w Wish, a, b *Host) bool {
	x, y := rendezvous(w, a), rendezvous(w, b)
	return x > y || (x == y && a.Name < b.Name)
}

func rendezvous(w Wish, h *Host) uint64 {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s/%s\x00%s", w.Namespace, w.Name, h.Name)
	return mix(sum.Sum64())
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
