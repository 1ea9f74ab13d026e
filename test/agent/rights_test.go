package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

func quantities(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// noRolesForAgents: nodes have what the control plane gives every node, and nothing
// of ours.
func noRolesForAgents(t *testing.T, plane *stage.Plane) {
	clusterWide, err := plane.Client.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range clusterWide.Items {
		checkBinding(t, b.Name, b.Labels, b.Subjects)
	}
	bindings, err := plane.Client.RbacV1().RoleBindings("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bindings.Items {
		checkBinding(t, b.Namespace+"/"+b.Name, b.Labels, b.Subjects)
	}
}

func checkBinding(t *testing.T, name string, labels map[string]string, subjects []rbacv1.Subject) {
	t.Helper()
	for _, s := range subjects {
		node := s.Name == "system:nodes" || strings.HasPrefix(s.Name, "system:node:")
		if node && labels["kubernetes.io/bootstrapping"] != "rbac-defaults" {
			t.Errorf("binding %s gives rights to %s %s", name, s.Kind, s.Name)
		}
	}
}

// expected is what a node may be seen asking for, whatever happens to its Pods.
var expected = []string{
	"get nodes", "create nodes", "patch nodes/status", "patch nodes", "list nodes", "watch nodes",
	"get leases", "create leases", "update leases",
	"list pods", "watch pods", "get pods", "patch pods/status", "delete pods",
	"create events", "patch events",
	"list secrets", "watch secrets", "list configmaps", "watch configmaps", "create serviceaccounts/token",
	"create certificatesigningrequests", "get certificatesigningrequests", "list certificatesigningrequests", "watch certificatesigningrequests",
}

// asksOnlyWhatNodesMay reads the audit log of all stories.
func asksOnlyWhatNodesMay(t *testing.T, plane *stage.Plane, since time.Time) {
	requests, err := plane.NodeRequests(since)
	if err != nil {
		t.Fatal(err)
	}
	if len(requests) == 0 {
		t.Fatal("the audit log has no request of a node")
	}
	unexpected := map[string]int{}
	for _, r := range requests {
		if !slices.Contains(expected, r.What()) {
			unexpected[r.What()]++
		}
		if wholeCluster(r) {
			t.Errorf("%s asked for all of %s: %s", r.User.Username, r.Object.Resource, r.URI)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(unexpected)) {
		t.Errorf("nodes asked %d times to %s", unexpected[what], what)
	}
}

// wholeCluster: Secrets and ConfigMaps are asked for one by one, Pods and Nodes by
// what is the node's own.
func wholeCluster(r stage.Request) bool {
	if r.Object == nil || r.Verb != "list" && r.Verb != "watch" {
		return false
	}
	switch r.Object.Resource {
	case "secrets", "configmaps", "nodes":
		return !strings.Contains(r.URI, "metadata.name%3D") && !strings.Contains(r.URI, "metadata.name=")
	case "pods":
		return !strings.Contains(r.URI, "spec.nodeName%3D") && !strings.Contains(r.URI, "spec.nodeName=")
	}
	return false
}

const (
	// renewal is how often a Mac renews its lease.
	renewal = 10 * time.Second
	// quietTime is how long a Mac at rest is listened to at least: three renewals of its
	// lease, unless the machine is busy.
	quietTime = 35 * time.Second
)

// isQuiet: a Mac with two Pods at rest renews its lease and asks for nothing else,
// and nothing that it asks is refused.
func isQuiet(s *scene) {
	s.join()
	for _, name := range []string{"one", "two"} {
		s.awaitEvent(s.awaitRunning(s.create(name)), "Started") // events are sent beside all else
	}
	s.await("the events have been sent", func() bool { return s.settled() })
	since := time.Now()
	var asked map[string]int
	const renewed = "update leases: 200"
	s.await("three renewals of the lease", func() bool {
		if time.Since(since) < quietTime {
			return false
		}
		asked = map[string]int{}
		for _, r := range s.requests(since) {
			asked[fmt.Sprintf("%s: %d", r.What(), r.Code())]++
		}
		return asked[renewed] >= 3
	})
	listened := time.Since(since) // longer than meant on a busy machine
	leases := asked[renewed]
	delete(asked, renewed)
	// The status is due every five minutes, and may be just then.
	if what := "patch nodes/status: 200"; asked[what] == 1 {
		delete(asked, what)
	}
	// A watch ends by itself after some minutes and begins anew, at whatever time.
	for what := range asked {
		if strings.HasPrefix(what, "watch ") && strings.HasSuffix(what, ": 200") {
			delete(asked, what)
		}
	}
	if leases > 1+int(listened/renewal) || len(asked) > 0 {
		s.Errorf("in %s: %d renewals, and %v", listened, leases, asked)
	}
	s.clear()
}

// settled: for ten seconds nothing but leases was asked.
func (s *scene) settled() bool {
	for _, r := range s.requests(time.Now().Add(-10 * time.Second)) {
		if r.What() != "update leases" {
			return false
		}
	}
	return true
}

// requests of this Mac's node.
func (s *scene) requests(since time.Time) []stage.Request {
	s.Helper()
	all, err := s.plane.NodeRequests(since)
	s.must(err)
	return slices.DeleteFunc(all, func(r stage.Request) bool { return r.User.Username != "system:node:"+s.mac.Name })
}
