package host_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func machineOf(namespace, own string) *infrav1.ScalewayAppleSiliconMachine {
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "m-1"}}
	m.Spec.AdoptPoolPrefix = own
	return m
}

func TestPools(t *testing.T) {
	limited := host.Pools{Default: "pool-", Of: map[string][]string{"gpu": {"gpu-", "ci-"}}}
	listed := host.Pools{Of: map[string][]string{"gpu": {"gpu-"}}}
	for name, row := range map[string]struct {
		pools          host.Pools
		namespace, own string
		want, refused  string
	}{
		"the default":                     {limited, "a", "", "pool-", ""},
		"the default by name":             {limited, "a", "pool-", "pool-", ""},
		"the namespace's":                 {limited, "gpu", "ci-", "ci-", ""},
		"another namespace's":             {limited, "a", "gpu-", "pool-", `"gpu-" is not for Machines of the namespace a: it may name pool-;`},
		"nobody's":                        {limited, "gpu", "x-", "pool-", "it may name pool-, gpu-, ci-;"},
		"a longer one":                    {limited, "a", "pool-gpu-", "pool-", "is not for"},
		"no default, the namespace's":     {listed, "gpu", "gpu-", "gpu-", ""},
		"no default, another namespace's": {listed, "a", "gpu-", "", "there is none for it"},
		"nothing is limited":              {host.Pools{}, "a", "gpu-", "gpu-", ""},
		"only a default":                  {host.Pools{Default: "pool-"}, "a", "gpu-", "pool-", "is not for"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machineOf(row.namespace, row.own)
			if got := row.pools.Prefix(m); got != row.want {
				t.Errorf("prefix %q, want %q", got, row.want)
			}
			refusal := row.pools.Refusal(m)
			if !strings.Contains(refusal, row.refused) || (refusal == "") != (row.refused == "") {
				t.Errorf("refusal %q, want %q", refusal, row.refused)
			}
		})
	}
}

// A Machine's word makes no pool where pools are limited: a Foreign host would be free.
func TestKnownPools(t *testing.T) {
	machines := []infrav1.ScalewayAppleSiliconMachine{*machineOf("a", "jane-"), *machineOf("gpu", "gpu-")}
	limited := host.Pools{Default: "pool-", Of: map[string][]string{"gpu": {"gpu-"}, "ci": {"ci-"}}}
	if diff := cmp.Diff([]string{"pool-", "ci-", "gpu-"}, limited.Known(machines)); diff != "" {
		t.Errorf("limited (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"", "jane-", "gpu-"}, host.Pools{}.Known(machines)); diff != "" {
		t.Errorf("not limited (-want +got):\n%s", diff)
	}
}

func TestParsePools(t *testing.T) {
	got, err := host.ParsePools("gpu=gpu-pool-,a=ci-, gpu=ci-", "pool-")
	if diff := cmp.Diff(host.Pools{Default: "pool-", Of: map[string][]string{"gpu": {"gpu-pool-", "ci-"}, "a": {"ci-"}}}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for text, says := range map[string]string{"gpu-pool-": "write namespace=prefix", "=gpu-": "write namespace=prefix", "a=gpu": "must end in '-'", "a=": "is empty", "a=gpu-,": "write namespace=prefix"} {
		if _, err := host.ParsePools(text, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// The name of a release tells not whose: where pools are known, it is another cluster's, or of a
// prefix that is no more.
func TestTheNameOfAReleaseAloneIsOfThePoolWhereNoneIsKnown(t *testing.T) {
	for name, row := range map[string]struct {
		server   string
		prefixes []string
		want     bool
	}{
		"no pool is known":      {"theirs-" + serverID, nil, true},
		"an empty prefix":       {"theirs-" + serverID, []string{""}, true},
		"another pool's":        {"theirs-" + serverID, []string{"", "pool-"}, false},
		"the pool's":            {"pool-" + serverID, []string{"gpu-", "pool-"}, true},
		"the pool's, by a hand": {"pool-1", []string{"pool-"}, true},
		"a hand, no pool known": {"pool-1", []string{""}, false},
	} {
		if got := host.InPool(row.server, serverID, row.prefixes...); got != row.want {
			t.Errorf("%s: %t, want %t", name, got, row.want)
		}
	}
}

// Nor does it open another namespace's pool to a Machine.
func TestTheNameOfAReleaseOpensNoOtherPool(t *testing.T) {
	theirs := pooled(named("theirs-" + serverID))
	if choice, skipped := host.Choose(wish("m"), []infrav1.ScalewayAppleSiliconHost{*theirs}); choice != nil || !skipped.Only(host.SkipNotInPool) {
		t.Errorf("chose %v, skipped %v", choice, skipped)
	}
	m := machineOf("fleet", "")
	m.Spec.HostRef = &infrav1.HostReference{Name: host.ObjectName(zone, serverID), ClaimToken: "by-hand"}
	if got := host.Repair(m, theirs, prefix); got != host.ChooseAgain {
		t.Errorf("a reference by hand to another pool's host: %s, want %s", got, host.ChooseAgain)
	}
	m.Name = "m-" + serverID
	if got := host.Repair(m, pooled(), prefix); got != host.ChooseAgain {
		t.Errorf("a Machine whose name would look free: %s, want %s", got, host.ChooseAgain)
	}
	if choice, skipped := host.Choose(wish(m.Name), []infrav1.ScalewayAppleSiliconHost{*pooled()}); choice != nil || !skipped.Only(host.SkipOwnName) {
		t.Errorf("chose %v, skipped %v", choice, skipped)
	}
}
