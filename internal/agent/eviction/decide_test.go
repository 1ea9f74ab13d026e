package eviction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/health"
)

const gib = 1 << 30

// using is a Pod of a priority that asked for some GiB of memory and uses some.
func using(name string, priority int32, asked string, used int64) Candidate {
	c := corev1.Container{Name: "main"}
	if asked != "" {
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(asked)}
	}
	return Candidate{
		Pod:       &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{c}}},
		Container: "main", Used: used * gib,
	}
}

func TestWhoGoesFirst(t *testing.T) {
	const critical = 2_000_000_000
	for name, c := range map[string]struct {
		list []Candidate
		want string
	}{
		"above its request before a less important one within": {[]Candidate{using("low", 0, "8Gi", 7), using("high", 1000, "4Gi", 5)}, "high"},
		"the less important of two above":                      {[]Candidate{using("high", 10, "1Gi", 9), using("low", 0, "4Gi", 5)}, "low"},
		"the less important of two within":                     {[]Candidate{using("high", 10, "8Gi", 1), using("low", 0, "8Gi", 1)}, "low"},
		"furthest above its request":                           {[]Candidate{using("large", 0, "8Gi", 9), using("far", 0, "2Gi", 5)}, "far"},
		"best effort is always above":                          {[]Candidate{using("asked", 0, "8Gi", 8), using("effort", 0, "", 1)}, "effort"},
		"of which nothing is known":                            {[]Candidate{using("far", 0, "", 9), using("booting", 10, "8Gi", -1)}, "booting"},
		"a critical one is not ended":                          {[]Candidate{using("critical", critical, "", 9), using("other", critical-1, "8Gi", 1)}, "other"},
		"nor when it is the only one":                          {[]Candidate{using("critical", critical, "", 9)}, ""},
		"none":                                                 {nil, ""},
	} {
		got, found := choose(corev1.ResourceMemory, c.list)
		if found != (c.want != "") || found && got.Pod.Name != c.want {
			t.Errorf("%s: %v, %t, want %q", name, got.Pod, found, c.want)
		}
	}
}

func TestTheClassesOverheadIsAskedFor(t *testing.T) {
	within, above := using("within", 0, "4Gi", 5), using("above", 5, "4Gi", 5)
	within.Pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")}
	if got, _ := choose(corev1.ResourceMemory, []Candidate{within, above}); got.Pod.Name != "above" {
		t.Errorf("%s goes", got.Pod.Name)
	}
}

// People and programs look for a kubelet's words.
func TestTheMessageIsAKubelets(t *testing.T) {
	s := health.Shortage{Resource: corev1.ResourceMemory, Threshold: "100Mi", Available: "34Mi"}
	const low = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 34Mi. "
	unknown := using("a", 0, "", -1)
	unknown.Container = ""
	for want, c := range map[string]Candidate{
		low + "Container main was using 7Gi, request is 6Gi, has larger consumption of memory. ": using("a", 0, "6Gi", 7),
		low + "Container main was using 7Gi, request is 0, has larger consumption of memory. ":   using("a", 0, "", 7),
		low: using("a", 0, "8Gi", 7),
	} {
		if got := message(s, c); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
	if got := message(s, unknown); got != low {
		t.Errorf("nothing is known: %q", got)
	}
}
