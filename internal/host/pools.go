package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Pools says which pools the Machines of a namespace may take Macs from and give
// them back to.
type Pools struct {
	// Default is the prefix of Machines that name none, and may be named by all.
	// Empty: there is none.
	Default string
	// Of are the prefixes that the Machines of a namespace may name beside it.
	Of map[string][]string
}

// limited: where neither a default nor a namespace's pools are known, there is
// nothing to limit a Machine's own word to.
func (p Pools) limited() bool { return p.Default != "" || len(p.Of) > 0 }

// allows reports that Machines of the namespace may name the prefix.
func (p Pools) allows(namespace, prefix string) bool {
	return !p.limited() || prefix == p.Default || slices.Contains(p.Of[namespace], prefix)
}

// Prefix is the prefix of the Machine's pool: its own where it may name that one,
// else the default. A Machine that may not gets no Mac (Refusal); what it still
// holds goes back to the default pool, and to none that is not its own.
func (p Pools) Prefix(m *infrav1.ScalewayAppleSiliconMachine) string {
	if own := m.Spec.AdoptPoolPrefix; own != "" && p.allows(m.Namespace, own) {
		return own
	}
	return p.Default
}

// Refusal says why the Machine may not name the pool that it names, or nothing.
func (p Pools) Refusal(m *infrav1.ScalewayAppleSiliconMachine) string {
	own := m.Spec.AdoptPoolPrefix
	if own == "" || p.allows(m.Namespace, own) {
		return ""
	}
	allowed := slices.DeleteFunc(append([]string{p.Default}, p.Of[m.Namespace]...), func(prefix string) bool { return prefix == "" })
	may := "there is none for it"
	if len(allowed) > 0 {
		may = "it may name " + strings.Join(allowed, ", ")
	}
	return fmt.Sprintf("spec.adoptPoolPrefix %q is not for Machines of the namespace %s: %s; trust.poolPrefixes in the chart adds pools", own, m.Namespace, may)
}

// Known are the prefixes of all pools, whoever uses them: a server named so is no
// stray. Machines add to them only what they may name.
func (p Pools) Known(machines []infrav1.ScalewayAppleSiliconMachine) []string {
	known := []string{p.Default}
	for _, namespace := range slices.Sorted(maps.Keys(p.Of)) {
		known = append(known, p.Of[namespace]...)
	}
	if p.limited() {
		return known
	}
	for i := range machines {
		known = append(known, machines[i].Spec.AdoptPoolPrefix)
	}
	return known
}

// ParsePools reads namespace=prefix for each, separated by commas.
func ParsePools(text, defaultPrefix string) (Pools, error) {
	pools := Pools{Default: defaultPrefix}
	if text == "" {
		return pools, nil
	}
	pools.Of = map[string][]string{}
	for pair := range strings.SplitSeq(text, ",") {
		namespace, prefix, found := strings.Cut(strings.TrimSpace(pair), "=")
		if !found || namespace == "" {
			return Pools{}, fmt.Errorf("%q is no pool of a namespace: write namespace=prefix, such as team-a=gpu-pool-", pair)
		}
		if err := CheckPrefix(prefix); err != nil {
			return Pools{}, fmt.Errorf("namespace %s: %w", namespace, err)
		}
		pools.Of[namespace] = append(pools.Of[namespace], prefix)
	}
	return pools, nil
}
