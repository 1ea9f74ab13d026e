package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// sound is a fleet of two hosts, of which one is a Machine's.
func sound() whole {
	w := whole{want: 2, owners: map[string]string{"id-0": "machine", "id-1": ""}}
	for n, name := range []string{"machine", "tuist-pool-1"} {
		id := fmt.Sprint("id-", n)
		w.servers = append(w.servers, scaleway.Server{ID: id, Name: name})
		h := infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("host-", n)}}
		h.Spec.ServerID = id
		w.hosts = append(w.hosts, h)
	}
	w.hosts[0].Spec.ClaimRef = &infrav1.ClaimReference{Name: "machine", Token: "token"}
	m := infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}
	m.Spec.ProviderID, m.Spec.HostRef = "scw-applesilicon://z/id-0", &infrav1.HostReference{Name: "host-0", ClaimToken: "token"}
	w.machines = append(w.machines, m)
	w.nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "machine"}, Spec: corev1.NodeSpec{ProviderID: "scw-applesilicon://z/id-0"}}}
	return w
}

func TestNothingIsWrongWithASoundFleet(t *testing.T) {
	if all := sound().atRest(); all != nil {
		t.Errorf("%q", all)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*whole)
		want  string
	}{
		{"a server is gone", func(w *whole) { w.servers = w.servers[:1] }, "the vendor has 1 servers, and had 2"},
		{"a server is no host", func(w *whole) { w.hosts = w.hosts[:1] }, "server id-1 (tuist-pool-1) is 0 hosts"},
		{"a server is two hosts", func(w *whole) { w.hosts = append(w.hosts, w.hosts[1]) }, "server id-1 (tuist-pool-1) is 2 hosts"},
		{"a host is shared", func(w *whole) {
			other := *w.machines[0].DeepCopy()
			other.Name = "other"
			w.machines = append(w.machines, other)
		}, "Machines machine and other have host host-0"},
		{"a claim is another's", func(w *whole) { w.hosts[0].Spec.ClaimRef.Token = "old" }, `host host-0 is claimed as "machine/old"`},
		{"a claim is nobody's", func(w *whole) { w.machines = nil }, "by nobody who is there"},
		{"a Machine has none", func(w *whole) { w.machines[0].Spec.HostRef = nil }, "Machine machine has no host"},
		{"a free disk was used", func(w *whole) { w.owners["id-1"] = "earlier" }, `the disk of host host-1 is that of "earlier"`},
		{"a disk is another's", func(w *whole) { w.owners["id-0"] = "earlier" }, `the disk of host host-0 is that of "earlier"`},
		{"a free host has a Machine's name", func(w *whole) { w.servers[1].Name = "machine" }, `host host-1 is "machine" at the vendor`},
		{"a used host has another's name", func(w *whole) { w.servers[0].Name = "other" }, `host host-0 is "other" at the vendor`},
		{"a used host has the pool's name", func(w *whole) { w.servers[0].Name = "tuist-pool-0" }, `host host-0 is "tuist-pool-0" at the vendor`},
		{"a Node is left", func(w *whole) { w.nodes = append(w.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "left"}}) }, "Node left is"},
		{"a Node is another Mac", func(w *whole) { w.nodes[0].Spec.ProviderID = "scw-applesilicon://z/id-1" }, "Node machine is"},
		{"a Machine is no Node", func(w *whole) { w.nodes = nil }, "Machine machine is no Node"},
	} {
		w := sound()
		c.spoil(&w)
		if all := w.atRest(); !slices.ContainsFunc(all, func(text string) bool { return strings.Contains(text, c.want) }) {
			t.Errorf("%s: said %q, want %q", c.name, all, c.want)
		}
	}
}

func TestMachinesKeepTheirHosts(t *testing.T) {
	before := map[string]string{"a": "1/t", "b": "2/t", "c": "3/t"}
	now := map[string]string{"a": "1/t", "b": "2/u", "d": "4/t"}
	want := []string{`Machine b had host 2/t, and has "2/u"`, `Machine c had host 3/t, and has ""`}
	if got := disturbed(before, now); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
