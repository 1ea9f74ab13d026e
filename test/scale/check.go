package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
)

// whole is all that there is at one time, as everybody tells it by himself: the vendor, the API server, the Macs.
type whole struct {
	// want is how many servers the vendor has had from the beginning.
	want     int
	servers  []scaleway.Server
	hosts    []infrav1.ScalewayAppleSiliconHost
	machines []infrav1.ScalewayAppleSiliconMachine
	nodes    []corev1.Node
	// owners are the Machines that the Macs were made nodes of since they were installed, by server; "": none.
	owners map[string]string
}

// readWhole reads everything anew.
func (f *fleet) readWhole(ctx context.Context) (whole, error) {
	hosts, machines, nodes := &infrav1.ScalewayAppleSiliconHostList{}, &infrav1.ScalewayAppleSiliconMachineList{}, &corev1.NodeList{}
	for _, list := range []client.ObjectList{hosts, machines, nodes} {
		if err := f.client.List(ctx, list); err != nil {
			return whole{}, fmt.Errorf("reading the fleet: %w", err)
		}
	}
	return whole{
		want: f.servers, servers: f.Vendor().Servers(), hosts: hosts.Items, machines: machines.Items, nodes: nodes.Items, owners: f.macs.owners(),
	}, nil
}

// atRest is what is wrong where nothing is under way any more.
func (w whole) atRest() []string {
	return slices.Concat(w.lost(), w.shared(), w.claims(), w.dirty(), w.strayNodes())
}

// lost: as many servers as ever, each of which is one host.
func (w whole) lost() (all []string) {
	if len(w.servers) != w.want {
		all = append(all, fmt.Sprintf("the vendor has %d servers, and had %d", len(w.servers), w.want))
	}
	hosts := map[string]int{}
	for _, h := range w.hosts {
		hosts[h.Spec.ServerID]++
	}
	for _, s := range w.servers {
		if n := hosts[s.ID]; n != 1 {
			all = append(all, fmt.Sprintf("server %s (%s) is %d hosts", s.ID, s.Name, n))
		}
		delete(hosts, s.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(hosts)) {
		all = append(all, fmt.Sprintf("the host of server %s has no server", id))
	}
	return all
}

// shared: no two Machines name one host. It holds at any time.
func (w whole) shared() (all []string) {
	owner := map[string]string{}
	for _, m := range w.machines {
		if m.Spec.HostRef == nil {
			continue
		}
		if other, taken := owner[m.Spec.HostRef.Name]; taken {
			all = append(all, fmt.Sprintf("Machines %s and %s have host %s", other, m.Name, m.Spec.HostRef.Name))
		}
		owner[m.Spec.HostRef.Name] = m.Name
	}
	return all
}

// claims: Machine and host say the same of each other.
func (w whole) claims() (all []string) {
	claim := map[string]string{}
	for _, h := range w.hosts {
		if c := h.Spec.ClaimRef; c != nil {
			claim[h.Name] = c.Name + "/" + c.Token
		}
	}
	for _, m := range w.machines {
		if m.Spec.HostRef == nil {
			all = append(all, fmt.Sprintf("Machine %s has no host", m.Name))
			continue
		}
		if got, want := claim[m.Spec.HostRef.Name], m.Name+"/"+m.Spec.HostRef.ClaimToken; got != want {
			all = append(all, fmt.Sprintf("host %s is claimed as %q, and its Machine says %q", m.Spec.HostRef.Name, got, want))
		}
		delete(claim, m.Spec.HostRef.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(claim)) {
		all = append(all, fmt.Sprintf("host %s is claimed as %q, by nobody who is there", name, claim[name]))
	}
	return all
}

// dirty: a free host has the name of the pool at the vendor, and was nobody's since it was installed; one
// in use was its Machine's alone.
func (w whole) dirty() (all []string) {
	names := map[string]string{}
	for _, s := range w.servers {
		names[s.ID] = s.Name
	}
	for _, h := range w.hosts {
		want := ""
		if h.Spec.ClaimRef != nil {
			want = h.Spec.ClaimRef.Name
		}
		if got := w.owners[h.Spec.ServerID]; got != want {
			all = append(all, fmt.Sprintf("the disk of host %s is that of %q, and its claim that of %q", h.Name, got, want))
		}
		name := names[h.Spec.ServerID]
		if inPool := strings.HasPrefix(name, world.PoolPrefix); inPool != (want == "") || !inPool && name != want {
			all = append(all, fmt.Sprintf("host %s is %q at the vendor, and its claim that of %q", h.Name, name, want))
		}
	}
	return all
}

// strayNodes: each Machine is one Node, and no other Mac is any.
func (w whole) strayNodes() (all []string) {
	machines := map[string]string{}
	for _, m := range w.machines {
		machines[m.Name] = m.Spec.ProviderID
	}
	for _, n := range w.nodes {
		if id, ours := machines[n.Name]; !ours || id != n.Spec.ProviderID {
			all = append(all, fmt.Sprintf("Node %s is %s, and its Machine %q", n.Name, n.Spec.ProviderID, id))
		}
		delete(machines, n.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(machines)) {
		all = append(all, fmt.Sprintf("Machine %s is no Node", name))
	}
	return all
}

// tenancies are the hosts that Machines have.
func tenancies(machines []infrav1.ScalewayAppleSiliconMachine) map[string]string {
	all := map[string]string{}
	for _, m := range machines {
		if m.Spec.HostRef != nil && m.DeletionTimestamp == nil {
			all[m.Name] = m.Spec.HostRef.Name + "/" + m.Spec.HostRef.ClaimToken
		}
	}
	return all
}

// disturbed are the Machines that had a host, and no longer have the same.
func disturbed(before, now map[string]string) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if now[name] != before[name] {
			all = append(all, fmt.Sprintf("Machine %s had host %s, and has %q", name, before[name], now[name]))
		}
	}
	return all
}
