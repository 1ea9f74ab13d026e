package host

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	watchlabels "sigs.k8s.io/cluster-api/util/labels"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// ObjectName is the name of the Host of a server.
func ObjectName(zone, serverID string) string { return zone + "-" + serverID }

// serverIDLength is that of a server's id, a UUID, which ends a Host's name.
const serverIDLength = 36

// SplitName returns the zone and the server's id in a Host's name.
func SplitName(name string) (zone, serverID string) {
	zone = name[:max(0, len(name)-serverIDLength-1)]
	return zone, strings.TrimPrefix(name, zone+"-")
}

// NamesServer reports that a name can be that of a server's Host, which an order's is not.
func NamesServer(name string) bool {
	zone, serverID := SplitName(name)
	return zone != "" && serverIDForm.MatchString(serverID)
}

// NameOf is the name of the Host of the server in a providerID.
func NameOf(providerID string) string {
	zone, id, _ := strings.Cut(strings.TrimPrefix(providerID, infrav1.ProviderIDPrefix), "/")
	return ObjectName(zone, id)
}

// Obeys reports that a manager with the watch filter, if it has one, is to work for the
// object, which has it as its label cluster.x-k8s.io/watch-filter.
func Obeys(o metav1.Object, watchFilter string) bool {
	return watchFilter == "" || watchlabels.HasWatchLabel(o, watchFilter)
}

// New is the Host of a server. The watch filter is its label; empty: it gets none.
func New(zone, serverID, watchFilter string) *Host {
	h := &Host{Spec: infrav1.ScalewayAppleSiliconHostSpec{ServerID: serverID, Zone: zone}}
	h.Name = ObjectName(zone, serverID)
	if watchFilter != "" {
		h.Labels = map[string]string{clusterv1.WatchLabel: watchFilter}
	}
	return h
}

// ProviderID is the Node's and the Machine's name for a server.
func ProviderID(zone, serverID string) string {
	return infrav1.ProviderIDPrefix + zone + "/" + serverID
}

// OSFamily is the family as the vendor's facts are written here: of Tahoe,
// macos-tahoe and, as the first system's objects may have it, macos-tahoe-26.3 it is
// tahoe.
func OSFamily(name string) string {
	family := strings.ReplaceAll(strings.ToLower(name), " ", "")
	for i := 0; i+1 < len(family); i++ {
		if family[i] == '-' && family[i+1] >= '0' && family[i+1] <= '9' {
			family = family[:i] // the version of an image
		}
	}
	return strings.TrimPrefix(strings.TrimPrefix(family, "macos"), "-")
}

// PoolName is the one name a server has in the pool after a release. It is made
// of the server's id, so that repeating the rename changes nothing.
func PoolName(prefix, serverID string) string { return prefix + serverID }

// InPool reports that the name is a pool name: it starts with one of the prefixes.
// Only where none is known, the name that a release gave the server is one: of another
// prefix it is another cluster's, or of a prefix that is no more.
func InPool(name, serverID string, prefixes ...string) bool {
	if !slices.ContainsFunc(prefixes, func(prefix string) bool { return prefix != "" }) {
		return releaseName(name, serverID)
	}
	return pooledName(name, prefixes...)
}

// pooledName reports that the name starts with one of the prefixes.
func pooledName(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return prefix != "" && strings.HasPrefix(name, prefix) })
}

// releaseName reports that the name ends as the one that a release gives the server, see
// PoolName: in whose pool, it does not tell.
func releaseName(name, serverID string) bool { return strings.HasSuffix(name, "-"+serverID) }

// The shortest and longest pool prefix, as in the Machine's schema: a shorter one
// would match nearly any name.
const (
	shortestPrefix = 3
	longestPrefix  = 40
)

// prefixForm is what the Machine's schema allows of a pool prefix.
var prefixForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*-$`)

// PrefixError says what is wrong with a pool prefix.
type PrefixError struct {
	Prefix, Problem string
}

// Error is one clear line for people.
func (e *PrefixError) Error() string { return fmt.Sprintf("pool prefix %q %s", e.Prefix, e.Problem) }

// CheckPrefix refuses a pool prefix that is empty, too wide, or that the names
// of claimed hosts would match: those would be taken for the pool's.
func CheckPrefix(prefix string, claimed ...string) error {
	wrong := func(problem string) error { return &PrefixError{prefix, problem} }
	switch {
	case prefix == "":
		return wrong("is empty")
	case len(prefix) < shortestPrefix:
		return wrong(fmt.Sprintf("is too wide: it needs at least %d characters", shortestPrefix))
	case len(prefix) > longestPrefix:
		return wrong(fmt.Sprintf("is longer than %d characters", longestPrefix))
	case !strings.HasSuffix(prefix, "-"):
		return wrong("must end in '-'")
	case !prefixForm.MatchString(prefix):
		return wrong("may hold lower-case letters, digits and '-' only, and starts with a letter or digit")
	}
	for _, name := range claimed {
		if strings.HasPrefix(name, prefix) {
			return wrong(fmt.Sprintf("is too wide: the claimed name %q would count as the pool's", name))
		}
	}
	return nil
}
