package chart

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The policies are there unless somebody switches them off; the one that holds the
// manager to its tokens stays.
func TestThePoliciesAreOnByDefault(t *testing.T) {
	count := func(args ...string) int {
		found := 0
		for _, object := range objects(t, args...) {
			if object.GetKind() == "ValidatingAdmissionPolicy" && !strings.HasSuffix(object.GetName(), "-bootstrap-tokens") {
				found++
			}
		}
		return found
	}
	if got := count(); got < 4 {
		t.Errorf("%d policies by default, want those for Machines, hosts and pools", got)
	}
	policies := objects(t, set("trust.admissionPolicies=false")...)
	if named(policies, "ValidatingAdmissionPolicy", "macfleet-machine-claims") != nil || named(policies, "ValidatingAdmissionPolicyBinding", "macfleet-machine-claims") != nil {
		t.Error("the policies are there although they are switched off")
	}
	if named(policies, "ValidatingAdmissionPolicy", "macfleet-bootstrap-tokens") == nil {
		t.Error("the policy for bootstrap tokens went with the others")
	}
}

// Who has an admission controller of their own for Pods leaves ours out, and no other.
func TestThePolicyForPodsHasItsOwnSwitch(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{{nil, true}, {set("podAdmission.enabled=false"), false}, {set("trust.admissionPolicies=false"), true}} {
		found := objects(t, c.args...)
		for _, kind := range []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
			for _, name := range []string{"macfleet-mac-pods", "macfleet-mac-ephemeral-containers"} {
				if got := named(found, kind, name) != nil; got != c.want {
					t.Errorf("%q: %s %s is there: %t", c.args, kind, name, got)
				}
			}
		}
	}
}

// The class is the cluster's: of two releases, one brings it.
func TestTheRuntimeClassHasASwitch(t *testing.T) {
	for _, c := range []struct {
		args     []string
		overhead any
	}{
		{nil, "128Mi"},
		{set("runtimeClass.overhead.memory=1Gi"), "1Gi"},
		{set("runtimeClass.enabled=false"), nil},
	} {
		var got any
		if class := named(objects(t, c.args...), "RuntimeClass", "macos"); class != nil {
			got, _, _ = unstructured.NestedFieldNoCopy(class.Object, "overhead", "podFixed", "memory")
		}
		if got != c.overhead {
			t.Errorf("%q: a class with the overhead %v, want %v", c.args, got, c.overhead)
		}
	}
}

func TestEveryPolicyIsBound(t *testing.T) {
	found := objects(t)
	for _, object := range found {
		if object.GetKind() == "ValidatingAdmissionPolicy" && named(found, "ValidatingAdmissionPolicyBinding", object.GetName()) == nil {
			t.Errorf("nothing binds the policy %s", object.GetName())
		}
	}
}

// Manager and policies are told of the same pools.
func TestPoolsOfNamespacesReachTheManager(t *testing.T) {
	args := set("trust.poolPrefixes.team-b={ci-pool-,gpu-pool-}", "trust.poolPrefixes.team-a={gpu-pool-}")
	if flags := managerFlags(t, args...); !slices.Contains(flags, "--pool-prefixes=team-a=gpu-pool-,team-b=ci-pool-,team-b=gpu-pool-") {
		t.Errorf("flags = %q", flags)
	}
	if _, found := flagValue(managerFlags(t), "pool-prefixes"); found {
		t.Error("--pool-prefixes without a pool")
	}
}
