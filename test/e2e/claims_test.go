package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestClaimsBelongToOneObject is a cluster administrator who copies, invents and
// restores Machines while a Mac runs a guest: nobody loses a Mac to a manifest.
func TestClaimsBelongToOneObject(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 2})
	f.awaitPool(2)
	f.scale(1)
	f.awaitRunning(1)
	f.deploy(1)
	f.awaitPods(1)

	t.Run("ACopyOfARunningMachineCostsNothing", func(t *testing.T) { f.on(t).copiesCostNothing() })
	t.Run("AMachineNamedLikeAServerGetsNothing", func(t *testing.T) { f.on(t).namedLikeAServer() })
	t.Run("ARestoredMachineHasItsMacBack", func(t *testing.T) { f.on(t).restored() })
}

// life is what must not change of a Mac at work.
type life struct {
	server scaleway.Server
	mark   int64
	node   types.UID
	pod    types.UID
}

func (f *fleet) life(id string) life {
	f.Helper()
	machine := f.infraMachines()[0].Name
	return life{f.server(id), f.mark(), f.node(machine).UID, f.awaitPods(1)[0].UID}
}

// checkLife: neither vendor nor Node nor guest has noticed anything.
func (f *fleet) checkLife(id, machine string, before life) {
	f.Helper()
	f.checkUntouched(before.server, before.mark)
	if now := f.node(machine); now.UID != before.node || now.Spec.Unschedulable {
		f.Errorf("the Node is another one, or cordoned: %s, was %s", now.UID, before.node)
	}
	if now := f.awaitPods(1)[0]; now.UID != before.pod || now.Status.ContainerStatuses[0].RestartCount != 0 {
		f.Errorf("the guest was restarted: %+v", now.Status.ContainerStatuses)
	}
}

// copiesCostNothing does what "kubectl get -o yaml", an editor and "kubectl apply" do,
// and deletes what came of it.
func (f *fleet) copiesCostNothing() {
	id := f.onlyOwned()
	source := f.infraMachines()[0]
	before, claim := f.life(id), *f.hostOf(id).Spec.ClaimRef
	whole := manifest(&source)
	whole.Name += "-whole"
	if err := f.client.Create(f.Context(), whole); err == nil || !strings.Contains(err.Error(), "names the Mac of Machine "+source.Namespace+"/"+source.Name) {
		f.Errorf("a copy with its providerID is not refused: %v", err)
	}
	m := manifest(&source)
	m.Name, m.Spec.ProviderID = source.Name+"-copy", ""
	f.create(m)
	said := f.awaitReason(m, infrav1.ReasonClaimConflict)
	if !strings.Contains(said, "is claimed for Machine "+source.Namespace+"/"+source.Name) {
		f.Errorf("the copy says %q", said)
	}
	if m.Status.Initialization.Provisioned != nil {
		f.Error("the copy counts as provisioned")
	}
	f.delete(m)
	f.awaitGone(m)
	if now := *f.hostOf(id).Spec.ClaimRef; now != claim {
		f.Errorf("claimRef = %+v, was %+v", now, claim)
	}
	f.checkLife(id, source.Name, before)
	f.awaitRunning(1)
}

// namedLikeAServer makes a Machine that bears the name of somebody's server.
func (f *fleet) namedLikeAServer() {
	const name = "control-plane-1"
	var id string
	for _, h := range f.hosts() {
		if h.Status.Phase == infrav1.HostAvailable {
			id = h.Spec.ServerID
		}
	}
	was := f.server(id).Name
	f.world.Vendor().Rename(id, name)
	f.awaitPhase(id, infrav1.HostForeign)
	before, mark := f.server(id), f.mark()
	m := manifest(&f.infraMachines()[0])
	m.Name, m.OwnerReferences = name, nil
	m.Spec.ProviderID = ""
	m.Spec.HostRef = &infrav1.HostReference{Name: f.hostOf(id).Name, ClaimToken: "made-up"}
	f.create(m)
	if said := f.awaitReason(m, infrav1.ReasonClaimConflict); !strings.Contains(said, "nothing shows that this Machine ever had it") {
		f.Errorf("it says %q", said)
	}
	f.delete(m)
	f.awaitGone(m)
	f.checkUntouched(before, mark)
	f.world.Vendor().Rename(id, was)
	f.awaitPhase(id, infrav1.HostAvailable)
}

// restored removes a Machine by force, and restores its two objects from their
// manifests: at first the infra machine alone, which the API server deletes for want
// of its owner, then both.
func (f *fleet) restored() {
	id := f.onlyOwned()
	infra, core := f.infraMachines()[0], f.machines()[0]
	before := f.life(id)
	f.pauseSets(true) // no replacement meanwhile
	f.forceAway(&core, &infra)
	f.await("the Mac to be stranded", func() (string, bool) {
		h := f.hostOf(id)
		return string(h.Status.Phase), h.Status.Phase == infrav1.HostStranded
	})

	orphan := manifest(&infra)
	f.create(orphan)
	f.awaitGone(orphan)
	if h := f.hostOf(id); h.Spec.ClaimRef == nil || h.Spec.ClaimRef.UID != infra.UID || h.Spec.Release != nil {
		f.Fatalf("after a restore without the owner: %+v", h.Spec)
	}

	owner := &clusterv1.Machine{Spec: *core.Spec.DeepCopy()}
	owner.ObjectMeta = kept(&core)
	f.create(owner)
	again := manifest(&infra)
	again.OwnerReferences = nil
	f.create(again)
	f.await("the claim to follow the restored Machine", func() (string, bool) {
		h := f.hostOf(id)
		return fmt.Sprintf("%+v, %s", h.Spec.ClaimRef, h.Status.Phase), h.Spec.ClaimRef.UID == again.UID && h.Status.Phase == infrav1.HostInUse
	})
	f.pauseSets(false)
	f.awaitRunning(1)
	f.checkLife(id, infra.Name, before)
	if now := f.infraMachines(); len(now) != 1 || now[0].UID != again.UID {
		f.Errorf("%d Machines, want the restored one", len(now))
	}
}

// manifest is what a backup keeps of an infra machine: no status, and of the metadata
// what people keep.
func manifest(of *infrav1.ScalewayAppleSiliconMachine) *infrav1.ScalewayAppleSiliconMachine {
	return &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: kept(of), Spec: *of.Spec.DeepCopy()}
}

func kept(of client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: of.GetNamespace(), Name: of.GetName(), Labels: of.GetLabels(), Annotations: of.GetAnnotations(),
		Finalizers: of.GetFinalizers(), OwnerReferences: of.GetOwnerReferences(),
	}
}

// pauseSets keeps core from replacing Machines.
func (f *fleet) pauseSets(is bool) {
	f.Helper()
	value := "null"
	if is {
		value = `"true"`
	}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, clusterv1.PausedAnnotation, value))
	deployment := &clusterv1.MachineDeployment{}
	deployment.Namespace, deployment.Name = world.Namespace, world.Fleet
	sets := &clusterv1.MachineSetList{}
	f.list(sets, client.InNamespace(world.Namespace))
	objects := []client.Object{deployment}
	for i := range sets.Items {
		objects = append(objects, &sets.Items[i])
	}
	for _, object := range objects {
		if err := f.client.Patch(f.Context(), object, patch); err != nil {
			f.Fatalf("pausing %s: %v", object.GetName(), err)
		}
		f.await(object.GetName()+" to be paused, or not, for Cluster API", func() (string, bool) {
			err := f.client.Get(f.Context(), client.ObjectKeyFromObject(object), object)
			if err != nil {
				return err.Error(), apierrors.IsNotFound(err)
			}
			paused := conditions.IsTrue(object.(conditions.Getter), clusterv1.PausedCondition)
			return fmt.Sprint(paused), paused == is
		})
	}
}

// forceAway removes both objects past their finalizers, while no manager looks, and
// core leaves the Machine alone.
func (f *fleet) forceAway(core *clusterv1.Machine, infra *infrav1.ScalewayAppleSiliconMachine) {
	f.Helper()
	if err := f.world.KillManager(0); err != nil {
		f.Fatal(err)
	}
	bare := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"finalizers":null,"annotations":{%q:"true"}}}`, clusterv1.PausedAnnotation))
	for _, object := range []client.Object{core.DeepCopy(), infra.DeepCopy()} {
		if err := f.client.Patch(f.Context(), object, bare); err != nil {
			f.Fatalf("taking the finalizers off: %v", err)
		}
		if err := f.client.Delete(f.Context(), object); client.IgnoreNotFound(err) != nil {
			f.Fatalf("deleting %s: %v", object.GetName(), err)
		}
		f.awaitGone(object)
	}
	if err := f.world.StartManager(f.Context(), 0); err != nil {
		f.Fatal(err)
	}
}

// awaitReason waits for HostClaimed's reason, and returns what it says.
func (f *fleet) awaitReason(m *infrav1.ScalewayAppleSiliconMachine, reason string) string {
	f.Helper()
	f.await(m.Name+" to say "+reason, func() (string, bool) {
		if err := f.client.Get(f.Context(), client.ObjectKeyFromObject(m), m); err != nil {
			return err.Error(), false
		}
		return conditions.GetReason(m, infrav1.HostClaimedCondition), conditions.GetReason(m, infrav1.HostClaimedCondition) == reason
	})
	return conditions.GetMessage(m, infrav1.HostClaimedCondition)
}

func (f *fleet) awaitGone(object client.Object) {
	f.Helper()
	f.await(object.GetName()+" to be gone", func() (string, bool) {
		err := f.client.Get(f.Context(), client.ObjectKeyFromObject(object), object)
		return fmt.Sprint(err, object.GetDeletionTimestamp()), apierrors.IsNotFound(err)
	})
}

func (f *fleet) create(object client.Object) {
	f.Helper()
	if err := f.client.Create(f.Context(), object); err != nil {
		f.Fatalf("creating %s: %v", object.GetName(), err)
	}
}

func (f *fleet) delete(object client.Object) {
	f.Helper()
	if err := f.client.Delete(f.Context(), object); err != nil {
		f.Fatalf("deleting %s: %v", object.GetName(), err)
	}
}

// hostOf is the Host of a server.
func (f *fleet) hostOf(id string) *host.Host {
	f.Helper()
	for _, h := range f.hosts() {
		if h.Spec.ServerID == id {
			return &h
		}
	}
	f.Fatalf("server %s has no Host", id)
	return nil
}
