package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

const migratePage = "migrate.md"

// TestComingFromTheFirstSystem walks docs/migrate.md with a cluster and Macs as the
// first system leaves them: two Macs live, with a guest each, one Machine is being
// deleted, and a Mac that was released before its wipe bears a pool name.
func TestComingFromTheFirstSystem(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 4})
	was := f.formerWorld()
	f.startsOnlyAlone(was)
	f.givesEachItsOwn(was)
	f.takesOverInTurn(was)
	f.keepsGuestsAndNodes(was)
	f.wipesTheDeleted(was)
	f.wipesThePoolFirst(was)
	f.takesRightsAway(was)
	f.endsGuestsWithTheirPods(was)
	f.goesBack(was)
}

// formerState is what the first system has.
type formerState struct {
	// live are the names of Machines, deleted is one more.
	live    []string
	deleted string
	// servers of all three, by their names.
	servers map[string]scaleway.Server
	// pooled is a server in the pool that was not wiped.
	pooled scaleway.Server
	nodes  map[string]types.UID
	pods   map[string]*corev1.Pod
	// guests are the processes of VMs.
	guests map[string]string
	// orders are how many commands each live Mac was given.
	orders map[string]int
	// mark is the vendor's journal before macfleet came.
	mark int64
}

// formerWorld builds it. The sandbox has macfleet's chart from the beginning; its
// manager goes, and what it saw.
func (f *fleet) formerWorld() *formerState {
	f.Helper()
	was := &formerState{servers: map[string]scaleway.Server{}, nodes: map[string]types.UID{}, pods: map[string]*corev1.Pod{}, guests: map[string]string{}, orders: map[string]int{}}
	kubeconfig := f.formerKubeconfig()
	if err := f.world.KillManager(0); err != nil {
		f.Fatal(err)
	}
	f.kubectl("delete", "sash", "--all")
	f.formerCRDs()
	f.formerClusterUp(kubeconfig)
	f.formerObjects(3)
	names := f.formerNames(3)
	was.live, was.deleted = names[:2], names[2]
	servers := f.world.Vendor().Servers()
	for i, name := range names {
		f.world.Vendor().Rename(servers[i].ID, name)
		was.servers[name] = f.server(servers[i].ID)
		f.formerUp(was, name)
	}
	was.pooled = servers[3]
	f.world.Vendor().Rename(was.pooled.ID, world.PoolPrefix+uuid.NewString())
	f.formerFiles(was.pooled, "gone-long-ago", "")
	f.formerHeartbeat(was.servers)
	f.awaitFormerNodes(names)
	for _, name := range was.live {
		was.nodes[name] = f.node(name).UID
		was.pods[name] = f.formerPod(podOf(name), name)
		was.guests[name] = f.formerGuest(was.servers[name].ID)
	}
	f.backsUp()
	f.scaleFormer(was.deleted, 2)
	was.mark = f.mark()
	for _, name := range was.live {
		was.orders[name] = f.orders(was.servers[name].ID)
	}
	return was
}

// backsUp keeps what the way back needs.
func (f *fleet) backsUp() {
	f.Helper()
	for _, command := range []string{
		"kubectl -n NAMESPACE get clusters.cluster.x-k8s.io,machinedeployments,machinesets,machines -o yaml >capi.yaml",
		"kubectl -n NAMESPACE get samm,sammt -o yaml >first-system.yaml",
		"kubectl -n SECRETS_NAMESPACE get secrets -l tuist.dev/managed-by=capi-scaleway-applesilicon -o yaml >secrets.yaml",
		"kubectl get crds scalewayapplesiliconmachines.infrastructure.cluster.x-k8s.io scalewayapplesiliconmachinetemplates.infrastructure.cluster.x-k8s.io -o yaml >crds.yaml",
	} {
		f.types(migratePage, command, "SECRETS_NAMESPACE", formerSecrets)
	}
}

// formerUp has the first system bring up the Mac of a Machine, and start its guest.
func (f *fleet) formerUp(was *formerState, name string) {
	f.Helper()
	server, vm := was.servers[name], ""
	if name != was.deleted {
		vm = "default-" + podOf(name)
	}
	f.formerBringUp(server, name, vm)
	f.formerNode(name, server.ID)
	f.formerMachine(f.client, name, server.ID)
}

// podOf is the name of the Pod on a Node.
func podOf(node string) string { return "runner-" + node[len(node)-5:] }

// scaleFormer has the MachineDeployment let one Machine go.
func (f *fleet) scaleFormer(name string, replicas int) {
	f.Helper()
	f.types(migratePage, "kubectl -n NAMESPACE annotate machine MACHINE cluster.x-k8s.io/delete-machine=true", "MACHINE", name)
	f.types(migratePage, "kubectl -n NAMESPACE scale machinedeployment DEPLOYMENT --replicas=N", "DEPLOYMENT", formerFleet, "=N", fmt.Sprintf("=%d", replicas))
	f.await(name+" to be deleted", func() (string, bool) {
		infra := &infrav1.ScalewayAppleSiliconMachine{}
		err := f.client.Get(f.Context(), client.ObjectKey{Namespace: world.Namespace, Name: name}, infra)
		return fmt.Sprint(err, infra.DeletionTimestamp), client.IgnoreNotFound(err) == nil && (err != nil || infra.DeletionTimestamp != nil)
	})
}

// startsOnlyAlone: no manager starts beside the first system's, nor on its CRDs. Ours
// starts with all profiles paused.
func (f *fleet) startsOnlyAlone(was *formerState) {
	f.Helper()
	f.renewFormerLease(0)
	f.startIsRefused("scale its Deployment to 0 first (docs/migrate.md)")
	f.renewFormerLease(time.Hour)
	f.startIsRefused("is not macfleet's, but another system's of the same name")
	f.types(migratePage, "helm show crds charts/macfleet | kubectl apply --server-side --force-conflicts -f -", "helm show crds charts/macfleet", f.showCRDs())
	f.types(migratePage, "kubectl -n SECRETS_NAMESPACE get secret FLEET-ssh -o yaml | sed -E '/^  (uid|resourceVersion|creationTimestamp):/d; s/^  namespace: .*/  namespace: NAMESPACE/' | kubectl create -f -",
		"SECRETS_NAMESPACE", formerSecrets, "FLEET", formerFleet)
	for _, name := range was.live {
		f.types(migratePage, `kubectl -n NAMESPACE patch samm MACHINE --type merge -p '{"spec":{"profileRef":{"name":"PROFILE"}}}'`, "MACHINE", name, "PROFILE", world.Fleet)
	}
	f.setProfile(`{"spec":{"rollout":{"soak":"1s","paused":true}}}`)
	if err := f.world.StartManager(f.Context(), 0, "--trust-unseen=false"); err != nil {
		f.Fatal(err)
	}
}

// showCRDs is a command that prints what helm shows.
func (f *fleet) showCRDs() string {
	f.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "charts", "macfleet", "crds"))
	if err != nil {
		f.Fatal(err)
	}
	return "cat " + dir + "/*.yaml"
}

// givesEachItsOwn: every live Machine has the host of its own server. Nothing else
// happens to it while its profile is paused.
func (f *fleet) givesEachItsOwn(was *formerState) {
	f.Helper()
	f.awaitMachines("their own hosts", was.live, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		c := apimeta.FindStatusCondition(m.Status.Conditions, infrav1.UpToDateCondition)
		return m.Spec.HostRef != nil && m.Spec.HostRef.TakeOver && c != nil && c.Reason == infrav1.ReasonLegacyMachine
	})
	owners := f.owners()
	for _, name := range was.live {
		id := was.servers[name].ID
		if owners[id] != name {
			f.Errorf("server %s is of %q, want %s", id, owners[id], name)
		}
		if n := f.orders(id) - was.orders[name]; n != 0 || !f.formerRuns(id) {
			f.Errorf("%s: %d commands of ours before its turn, the first system's agent runs: %t", name, n, f.formerRuns(id))
		}
	}
}

// awaitMachines waits until all these Machines are so.
func (f *fleet) awaitMachines(what string, names []string, good func(*infrav1.ScalewayAppleSiliconMachine) bool) {
	f.Helper()
	f.await(what, func() (string, bool) {
		var seen []string
		done := 0
		for _, m := range f.infraMachines() {
			if !slices.Contains(names, m.Name) {
				continue
			}
			seen = append(seen, fmt.Sprintf("%s: %s %v", m.Name, m.Status.Phase, untrue(m.Status.Conditions)))
			if good(&m) {
				done++
			}
		}
		return strings.Join(seen, "; ") + " | " + f.phases(), done == len(names)
	})
}

// untrue says which conditions are not True, and why.
func untrue(conditions []metav1.Condition) string {
	var seen []string
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			seen = append(seen, fmt.Sprintf("%s=%s (%s)", c.Type, c.Reason, c.Message))
		}
	}
	return strings.Join(seen, ", ")
}

// takesOverInTurn: our agent replaces the first system's on both Macs, which the
// vendor was asked nothing for.
func (f *fleet) takesOverInTurn(was *formerState) {
	f.Helper()
	f.setProfile(`{"spec":{"rollout":{"paused":false}}}`)
	f.awaitMachines("both live Macs to run our agent", was.live, func(m *infrav1.ScalewayAppleSiliconMachine) bool {
		return m.Status.Applied.Agent != "" && m.Status.Phase == "Running" && apimeta.IsStatusConditionTrue(m.Status.Conditions, infrav1.UpToDateCondition)
	})
	for _, name := range was.live {
		server := was.servers[name]
		f.checkUntouched(server, was.mark)
		if f.formerRuns(server.ID) {
			f.Errorf("the first system's agent runs on %s", name)
		}
		f.checkNothingFormer(server.ID)
	}
}

// checkNothingFormer: what the first system installed is gone.
func (f *fleet) checkNothingFormer(id string) {
	f.Helper()
	for _, path := range []string{"/Library/LaunchDaemons/" + formerLabel + ".plist", "/etc/tart-kubelet", "/etc/pf.anchors/tuist.runners"} {
		if out := f.rootOf(id, "ls -d "+path+" 2>/dev/null || true"); out != "" {
			f.Errorf("%s is left on server %s", path, id)
		}
	}
}

// keepsGuestsAndNodes: the guests ran on, as the same Pods on the same Nodes.
func (f *fleet) keepsGuestsAndNodes(was *formerState) {
	f.Helper()
	for _, name := range was.live {
		if now := f.formerGuest(was.servers[name].ID); now == "" || now != was.guests[name] {
			f.Errorf("the guest on %s is process %q, was %q", name, now, was.guests[name])
		}
	}
	f.await("the Nodes and their Pods to be as they were", func() (string, bool) {
		var seen []string
		same := 0
		for _, name := range was.live {
			node, pod := f.node(name), &corev1.Pod{}
			f.get(podOf(name), pod)
			seen = append(seen, fmt.Sprintf("%s ready=%v version=%s; %s", name, nodeReady(node), node.Status.NodeInfo.KubeletVersion, describePods([]corev1.Pod{*pod})))
			if was.sameNode(node) && was.samePod(name, pod) {
				same++
			}
		}
		return strings.Join(seen, "; "), same == len(was.live)
	})
}

func (was *formerState) sameNode(node corev1.Node) bool {
	return node.UID == was.nodes[node.Name] && nodeReady(node) && node.Status.NodeInfo.KubeletVersion != formerVersion
}

func (was *formerState) samePod(node string, pod *corev1.Pod) bool {
	status := pod.Status.ContainerStatuses[0]
	return pod.UID == was.pods[node].UID && pod.Status.Phase == corev1.PodRunning && status.RestartCount == 0 && status.ContainerID == "tart://default-"+pod.Name
}

// wipesTheDeleted: the Machine that was being deleted is gone, and its Mac is clean.
func (f *fleet) wipesTheDeleted(was *formerState) {
	f.Helper()
	server := was.servers[was.deleted]
	f.awaitPhase(server.ID, infrav1.HostAvailable)
	if now := f.server(server.ID); now.Installs != server.Installs+1 || now.Name != world.PoolPrefix+server.ID {
		f.Errorf("server of the deleted Machine: %+v; want it wiped once, and in the pool", now)
	}
	infra := &infrav1.ScalewayAppleSiliconMachine{}
	if err := f.client.Get(f.Context(), client.ObjectKey{Namespace: world.Namespace, Name: was.deleted}, infra); client.IgnoreNotFound(err) != nil || err == nil {
		f.Errorf("the deleted Machine: %v, %s", err, untrue(infra.Status.Conditions))
	}
}

// wipesThePoolFirst: the Mac in the pool that was never wiped is wiped before anybody
// gets it, and the chart's fleet takes Macs beside the old one.
func (f *fleet) wipesThePoolFirst(was *formerState) {
	f.Helper()
	f.awaitPhase(was.pooled.ID, infrav1.HostAvailable)
	if now := f.server(was.pooled.ID); now.Installs != was.pooled.Installs+1 {
		f.Errorf("the Mac in the pool that was not wiped was installed %d times, before %d times", now.Installs, was.pooled.Installs)
	}
	f.checkNothingFormer(was.pooled.ID)
	f.scale(1)
	f.await("a Machine of the chart's fleet to run", func() (string, bool) {
		running, seen := 0, []string{}
		for _, m := range f.infraMachines() {
			seen = append(seen, fmt.Sprintf("%s: %s %v", m.Name, m.Status.Phase, untrue(m.Status.Conditions)))
			if m.Status.Phase == "Running" {
				running++
			}
		}
		return strings.Join(seen, "; "), running == len(was.live)+1
	})
}

// takesRightsAway: Macs and guests live without what the first system gave its agents.
func (f *fleet) takesRightsAway(was *formerState) {
	f.Helper()
	f.types(migratePage, "kubectl get clusterrolebindings -o name | grep /tart-kubelet- | xargs kubectl delete")
	f.types(migratePage, "kubectl -n SECRETS_NAMESPACE get serviceaccounts,secrets -o name | grep /tart-kubelet- | xargs kubectl -n SECRETS_NAMESPACE delete", "SECRETS_NAMESPACE", formerSecrets)
	left := &corev1.SecretList{}
	f.list(left, client.InNamespace(formerSecrets))
	for _, secret := range left.Items {
		if strings.HasPrefix(secret.Name, "tart-kubelet-") {
			f.Errorf("the token %s is left", secret.Name)
		}
	}
	f.keepsGuestsAndNodes(was)
}

// endsGuestsWithTheirPods: a Pod of the first system's time can be deleted, and takes
// its VM with it.
func (f *fleet) endsGuestsWithTheirPods(was *formerState) {
	f.Helper()
	name := was.live[0]
	f.deletePods(was.pods[name])
	if now := f.formerGuest(was.servers[name].ID); now != "" {
		f.Errorf("the guest of a deleted Pod runs as process %s", now)
	}
}
