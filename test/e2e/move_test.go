package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/clusterctl"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestContract_MoveLosesNoMac moves a fleet that runs to another management cluster, with
// clusterctl itself, while both managers look on. Macfleet is the chart's on both sides, so
// that clusterctl has only its CRDs to go by.
func TestContract_MoveLosesNoMac(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 3})
	to := start(t, world.Options{Beside: f.world})
	f.awaitPool(3)
	f.scale(2)
	f.awaitRunning(2)
	f.deploy(2)
	guests := identities(f.awaitPods(2))
	for _, side := range []*fleet{f, to} {
		side.hasCoreOfClusterctl()
	}
	was := f.state()
	if len(was.owners) != 2 {
		t.Fatalf("owners %v, want two", was.owners)
	}

	ctl := f.clusterctl()
	ctl(f, "move", "--namespace", world.Namespace, "--to-kubeconfig", to.world.Kubeconfig())

	to.await("the claims of both Macs", func() (string, bool) {
		now := to.owners()
		return fmt.Sprint(now, " ", to.phases()), fmt.Sprint(now) == fmt.Sprint(was.owners) && to.inPhase(infrav1.HostInUse) == 2
	})
	f.isLeftWithout(was)
	to.hasAllThatFleetsNeed(was)
	to.await("Machines that say where their Macs are nodes", func() (string, bool) { return to.bootstrapped(infrav1.ReasonDifferentCluster) })
	f.sameGuests(guests)

	to.becomesTheirCluster(f)
	to.awaitRunning(2)
	f.untouched(was)
	tree := ctl(to, "describe", "cluster", "macfleet", "--namespace", world.Namespace)
	for _, part := range []string{"Cluster macfleet-system/macfleet", "ScalewayAppleSiliconCluster macfleet-system/macfleet", "ExternalControlPlane macfleet-system/macfleet", "MachineDeployment macfleet-system/macfleet-builders"} {
		if !strings.Contains(tree, part) {
			t.Errorf("clusterctl describe shows no %s:\n%s", part, tree)
		}
	}

	to.scale(1)
	to.await("the Mac that is given back", func() (string, bool) { return to.phases(), to.inPhase(infrav1.HostAvailable) == 2 })
	to.awaitRunning(1)
}

// fleetState is what a move must leave as it is.
type fleetState struct {
	owners  map[string]string
	servers []scaleway.Server
	mark    int64
	moved   map[string][]string
}

// state is what the Macs are now.
func (f *fleet) state() fleetState {
	f.Helper()
	return fleetState{owners: f.owners(), servers: f.world.Vendor().Servers(), mark: f.mark(), moved: f.fleetObjects()}
}

// fleetObjects are the names of all objects of which a fleet consists.
func (f *fleet) fleetObjects() map[string][]string {
	f.Helper()
	found := map[string][]string{}
	for _, list := range []client.ObjectList{
		&clusterv1.ClusterList{}, &clusterv1.MachineDeploymentList{}, &clusterv1.MachineSetList{}, &clusterv1.MachineList{},
		&infrav1.ScalewayAppleSiliconClusterList{}, &infrav1.ScalewayAppleSiliconMachineList{}, &infrav1.ScalewayAppleSiliconMachineTemplateList{},
		&infrav1.MacNodeProfileList{}, &infrav1.ScalewayAppleSiliconRemediationTemplateList{}, &controlplanev1.ExternalControlPlaneList{},
	} {
		f.list(list, client.InNamespace(world.Namespace))
		found[fmt.Sprintf("%T", list)] = f.names(list)
	}
	secrets := &corev1.SecretList{}
	f.list(secrets, client.InNamespace(world.Namespace))
	secrets.Items = slices.DeleteFunc(secrets.Items, func(s corev1.Secret) bool { return s.Name == "macfleet-vendor" }) // each side's own
	found["Secrets"] = f.names(secrets)
	return found
}

func (f *fleet) names(list client.ObjectList) []string {
	f.Helper()
	var names []string
	err := apimeta.EachListItem(list, func(object runtime.Object) error {
		names = append(names, object.(client.Object).GetName())
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// hasCoreOfClusterctl leaves what `clusterctl init` of core alone leaves, which the sandbox
// starts by itself.
func (f *fleet) hasCoreOfClusterctl() {
	f.Helper()
	if err := clusterctl.RecordCore(f.Context(), f.client); err != nil {
		f.Fatal(err)
	}
}

// clusterctl builds Cluster API's own, and runs it on a management cluster as a person does.
func (f *fleet) clusterctl() func(on *fleet, args ...string) string {
	f.Helper()
	home := f.TempDir()
	binary, err := clusterctl.Build(f.Context(), filepath.Join("..", ".."), home)
	if err != nil {
		f.Fatal(err)
	}
	return func(on *fleet, args ...string) string {
		f.Helper()
		said, err := clusterctl.Run(f.Context(), binary, home, append(args, "--kubeconfig", on.world.Kubeconfig())...)
		if err != nil {
			f.Fatal(err)
		}
		return said
	}
}

// isLeftWithout: nothing of the fleet is left, and its Macs are known to be another's.
func (f *fleet) isLeftWithout(was fleetState) {
	f.Helper()
	f.await("the Macs to be known as handed over", func() (string, bool) {
		return f.phases(), f.inPhase(infrav1.HostHandedOver) == len(was.owners) && f.inPhase(infrav1.HostAvailable) == 1
	})
	for kind, names := range f.fleetObjects() {
		if len(names) > 0 && kind != "Secrets" {
			f.Errorf("left behind: %s %q", kind, names)
		}
	}
}

// hasAllThatFleetsNeed: every object went along, by its name.
func (f *fleet) hasAllThatFleetsNeed(was fleetState) {
	f.Helper()
	now := f.fleetObjects()
	for kind, names := range was.moved {
		for _, name := range names {
			if !slices.Contains(now[kind], name) {
				f.Errorf("%s %s did not go along; there are %q", kind, name, now[kind])
			}
		}
	}
}

// bootstrapped: all Machines give that reason.
func (f *fleet) bootstrapped(reason string) (seen string, all bool) {
	f.Helper()
	machines := f.infraMachines()
	all = len(machines) > 0
	for i := range machines {
		condition := apimeta.FindStatusCondition(machines[i].Status.Conditions, infrav1.BootstrappedCondition)
		all = all && condition != nil && condition.Reason == reason
		seen += fmt.Sprintf("%s: %+v; ", machines[i].Name, condition)
	}
	return seen, all
}

// becomesTheirCluster says what a person has to, once: that Macs are nodes of this cluster
// now. Core here is still connected to the other one, until it is started anew or, as by an
// uninstall there, refused.
func (f *fleet) becomesTheirCluster(from *fleet) {
	f.Helper()
	from.delete(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: "capi-remote"}})
	plane := &controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: "macfleet"}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"clusterID":null,"controlPlaneEndpoint":null}}`))
	if err := f.client.Patch(f.Context(), plane, patch); err != nil {
		f.Fatal(err)
	}
}

// untouched: no server was wiped, bought, deleted, renamed or rebooted since.
func (f *fleet) untouched(was fleetState) {
	f.Helper()
	now := f.world.Vendor().Servers()
	if len(now) != len(was.servers) {
		f.Errorf("%d servers, %d before", len(now), len(was.servers))
	}
	for _, server := range was.servers {
		if after := f.server(server.ID); after.Name != server.Name || after.Installs != server.Installs || after.Status != server.Status {
			f.Errorf("the server is %+v, was %+v", after, server)
		}
	}
	for _, entry := range f.world.Vendor().Journal(was.mark) {
		if entry.Method != http.MethodGet && strings.Contains(entry.Path, "/servers") {
			f.Errorf("the vendor was asked for %s of %s: %d", entry.Call, entry.ServerID, entry.Status)
		}
	}
}
