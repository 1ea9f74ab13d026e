package state

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestLegacyVM(t *testing.T) {
	long := strings.Repeat("n", 40)
	for name, c := range map[string]struct {
		namespace, pod, id string
		want               string
	}{
		"its own":             {"ns", "a", "tart://ns-a", "ns-a"},
		"another's":           {"ns", "a", "tart://builder", ""},
		"ours":                {"ns", "a", "tart://tk-uid-a-0", ""},
		"another runtime":     {"ns", "a", "containerd://ns-a", ""},
		"none":                {"ns", "a", "", ""},
		"long, cut":           {"ns", long + long, "tart://" + ("ns-" + long + long)[:54] + "-0123abcd", ("ns-" + long + long)[:54] + "-0123abcd"},
		"long, of another":    {"xx", long + long, "tart://" + ("ns-" + long + long)[:54] + "-0123abcd", ""},
		"cut without a need":  {"ns", "abc", "tart://ns-a", ""},
		"a path in the name":  {"ns", "a", "tart://../ns-a", ""},
		"the Pod's container": {"ns", "a", "tart://ns-a/vm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := podtest.Legacy(corev1.RestartPolicyNever)
			p.Namespace, p.Name = c.namespace, c.pod
			p.Status.ContainerStatuses[0].ContainerID = c.id
			if got := LegacyVM(p); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
