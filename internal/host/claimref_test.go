package host_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// owner is the Machine that holds the claim of a claimed host, with changes.
func owner(changes ...func(*infrav1.ScalewayAppleSiliconMachine)) *infrav1.ScalewayAppleSiliconMachine {
	m := machine("m-1", means("t-1"))
	m.UID = "u-1"
	for _, change := range changes {
		change(&m)
	}
	return &m
}

func called(namespace, name string) func(*infrav1.ScalewayAppleSiliconMachine) {
	return func(m *infrav1.ScalewayAppleSiliconMachine) { m.Namespace, m.Name = namespace, name }
}

func uid(uid types.UID) func(*infrav1.ScalewayAppleSiliconMachine) {
	return func(m *infrav1.ScalewayAppleSiliconMachine) { m.UID = uid }
}

// A claim is held by one object: its namespace, name, token and UID together.
func TestWhoHoldsAClaim(t *testing.T) {
	none := func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = nil }
	for name, row := range map[string]struct {
		host         *host.Host
		machine      *infrav1.ScalewayAppleSiliconMachine
		holds, means bool
	}{
		"its owner":                     {pooled(claimed, by("u-1")), owner(), true, true},
		"claimed before UIDs":           {pooled(claimed), owner(), true, true},
		"created again":                 {pooled(claimed, by("u-1")), owner(uid("u-2")), false, true},
		"copied under another name":     {pooled(claimed, by("u-1")), owner(called("fleet", "m-2")), false, false},
		"copied into another namespace": {pooled(claimed, by("u-1")), owner(called("other", "m-1")), false, false},
		"another token":                 {pooled(claimed, by("u-1")), owner(means("t-2")), false, false},
		"no token":                      {pooled(claimed, by("u-1"), func(h *host.Host) { h.Spec.ClaimRef.Token = "" }), owner(means("")), false, false},
		"no hostRef":                    {pooled(claimed, by("u-1")), owner(none), false, false},
		"no claim":                      {pooled(), owner(), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.HoldsClaim(row.host, row.machine); got != row.holds {
				t.Errorf("HoldsClaim = %t", got)
			}
			if got := host.MeansClaim(row.host, row.machine); got != row.means {
				t.Errorf("MeansClaim = %t", got)
			}
		})
	}
}

func TestWhoseTheNodeIs(t *testing.T) {
	for name, row := range map[string]struct {
		host                 *host.Host
		machine              *infrav1.ScalewayAppleSiliconMachine
		namesake, leftBehind bool
	}{
		"its own":                         {pooled(claimed), owner(), false, false},
		"renamed by somebody, still ours": {pooled(claimed, named("theirs")), owner(), false, false},
		"of a namesake":                   {pooled(claimed), owner(called("other", "m-1")), true, false},
		"of a namesake, with our token":   {pooled(claimed), owner(called("other", "m-1"), means("t-2")), true, false},
		"of another Machine":              {pooled(claimed), owner(called("fleet", "m-2")), false, true},
		"back in the pool":                {pooled(named(prefix + serverID)), owner(), false, true},
		"nobody's, and somebody's name":   {pooled(named("theirs")), owner(), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.Namesake(row.host, row.machine); got != row.namesake {
				t.Errorf("Namesake = %t", got)
			}
			if got := host.LeftBehind(row.host, row.machine); got != row.leftBehind {
				t.Errorf("LeftBehind = %t", got)
			}
		})
	}
}
