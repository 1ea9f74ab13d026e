package e2e

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/world"
)

// goesBack gives a Mac that macfleet took over back to the first system, as the page
// says.
func (f *fleet) goesBack(was *formerState) {
	f.Helper()
	id := was.servers[was.live[1]].ID
	f.detachesUnwiped(was.live[1], id)
	f.rootOf(id, "sudo /usr/local/libexec/macfleet/current/tart-kubelet uninstall; [ $? = 10 ]") // 10: changed
	if err := f.world.KillManager(0); err != nil {
		f.Fatal(err)
	}
	manager := f.asFormerManager()
	f.policiesStandInTheWay(manager, was.live[0])
	f.types(migratePage, "sed '/^    resourceVersion:/d' crds.yaml | kubectl replace -f -")
	f.formerAdopts(manager, id)
}

// detachesUnwiped: the Machine and its Node go, and the vendor is asked for nothing.
func (f *fleet) detachesUnwiped(name, id string) {
	f.Helper()
	mark, server := f.mark(), f.server(id)
	f.types(migratePage, "kubectl -n NAMESPACE annotate samm MACHINE tuist.dev/release-policy=detach", "MACHINE", name)
	f.scaleFormer(name, 1)
	f.awaitPhase(id, infrav1.HostForeign)
	f.await("the Machine to be gone", func() (string, bool) {
		names := f.formerMachines()
		return fmt.Sprint(names), !slices.Contains(names, name)
	})
	f.checkUntouched(server, mark)
	if slices.ContainsFunc(f.nodes(), func(n corev1.Node) bool { return n.Name == name }) {
		f.Errorf("Node %s is left", name)
	}
}

// policiesStandInTheWay: as long as the chart's admission policies stand, the first
// system's manager is a stranger who writes which Mac a Machine holds.
func (f *fleet) policiesStandInTheWay(manager client.Client, name string) {
	f.Helper()
	infra := &infrav1.ScalewayAppleSiliconMachine{}
	infra.Namespace, infra.Name = world.Namespace, name
	write := func() error {
		return manager.Status().Patch(f.Context(), infra.DeepCopy(), mergePatch(`{"status":{"phase":"Ready"}}`), client.DryRunAll)
	}
	if err := write(); err == nil || !strings.Contains(err.Error(), "only macfleet writes them") {
		f.Errorf("the first system's manager writes a status: %v; want the chart's policy to refuse it", err)
	}
	// What `helm upgrade --set trust.admissionPolicies=false` does.
	f.kubectl("delete", "validatingadmissionpolicybindings,validatingadmissionpolicies", "-l", "app.kubernetes.io/name=macfleet")
	f.await("the API server to forget the policies", func() (string, bool) {
		err := write()
		return fmt.Sprint(err), err == nil
	})
}

// asFormerManager is a client with the rights of the first system's manager.
func (f *fleet) asFormerManager() client.Client {
	f.Helper()
	name, user := formerManager, "system:serviceaccount:"+world.Namespace+":"+formerManager
	f.createAll(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"scalewayapplesiliconmachines", "scalewayapplesiliconmachines/status"}, Verbs: []string{"*"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		},
	)
	config := f.world.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	manager, err := client.New(config, client.Options{Scheme: f.client.Scheme()})
	if err != nil {
		f.Fatal(err)
	}
	// The API server learns of rights by watching.
	f.await("the rights of the first system's manager", func() (string, bool) {
		err := manager.List(f.Context(), &infrav1.ScalewayAppleSiliconMachineList{}, client.InNamespace(world.Namespace))
		return fmt.Sprint(err), err == nil
	})
	return manager
}

// formerAdopts: a new Machine of the old template gets the server that a person named
// into the pool, and core binds the Node that the first system's agent makes.
func (f *fleet) formerAdopts(manager client.Client, id string) {
	f.Helper()
	f.world.Vendor().Rename(id, world.PoolPrefix+"given-back")
	old := f.formerMachines()
	f.types(migratePage, "kubectl -n NAMESPACE scale machinedeployment DEPLOYMENT --replicas=N", "DEPLOYMENT", formerFleet, "=N", "=2")
	name := ""
	f.await("a Machine of the old template", func() (string, bool) {
		now := f.formerMachines()
		for _, n := range now {
			if !slices.Contains(old, n) {
				name = n
			}
		}
		return fmt.Sprint(now), name != ""
	})
	f.world.Vendor().Rename(id, name)
	server := f.server(id)
	f.formerBringUp(server, name, "default-again")
	f.formerNode(name, id)
	f.formerMachine(manager, name, id)
	f.await("core to bind the Node of the first system", func() (string, bool) {
		m := &clusterv1.Machine{}
		f.read(name, m)
		return m.Status.Phase + " " + m.Status.NodeRef.Name, m.Status.NodeRef.Name == name
	})
	if !f.formerRuns(id) || f.formerGuest(id) == "" {
		f.Error("the first system's agent does not run again")
	}
}
