package api

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// What admission says, in part.
const (
	saysRemove  = "remove both from the manifest and the Machine gets a Mac of its own"
	saysLeave   = "only macfleet writes them: leave them as they are"
	saysTheVerb = "the verb claim on scalewayapplesiliconhosts.infrastructure.cluster.x-k8s.io"
	saysPeople  = "of a Host, people edit spec.maintenance, spec.quarantine, spec.reboot, spec.adopt, spec.acceptSerial and labels"
)

func referring() *infrav1.ScalewayAppleSiliconMachine {
	m := newMachine()
	m.Spec.HostRef = &infrav1.HostReference{Name: "fr-par-1-" + uuid.NewString(), ClaimToken: "the-token"}
	return m
}

// TestWhoMayMakeAMachineThatHasAMac: a copy and a restored backup are the same
// manifest; who applies it decides.
func TestWhoMayMakeAMachineThatHasAMac(t *testing.T) {
	for name, build := range map[string]func() *infrav1.ScalewayAppleSiliconMachine{
		"hostRef": referring, "providerID": machineWithProviderID, "both": provisionedMachine,
	} {
		if err := clients[clusterAdmin].Create(t.Context(), build()); err != nil {
			t.Errorf("%s, by %s: %v", name, clusterAdmin, err)
		}
		for _, who := range []string{fleetAuthor, namespaceAdmin, core} {
			t.Run(name+" by "+who, func(t *testing.T) {
				err := clients[who].Create(t.Context(), build())
				refused(t, err, saysRemove)
				refused(t, err, saysTheVerb)
			})
		}
	}
	for _, who := range []string{clusterAdmin, fleetAuthor, namespaceAdmin, core} {
		if err := clients[who].Create(t.Context(), newMachine()); err != nil {
			t.Errorf("a Machine that has no Mac, by %s: %v", who, err)
		}
	}
}

// TestWhoMayWriteTheManagersFieldsOfAMachine tries each write on a Machine that has
// its host.
func TestWhoMayWriteTheManagersFieldsOfAMachine(t *testing.T) {
	for name, change := range map[string]func(*infrav1.ScalewayAppleSiliconMachine){
		"another host":  func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.Name = "fr-par-1-" + uuid.NewString() },
		"another token": func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef.ClaimToken = "theirs" },
		"no host":       func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.HostRef = nil },
		"a providerID": func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.ProviderID = machineWithProviderID().Spec.ProviderID
		},
		"a status": func(m *infrav1.ScalewayAppleSiliconMachine) { m.Status.Phase = "Running" },
	} {
		for _, who := range []string{clusterAdmin, hostOperator, manager, fleetAuthor, namespaceAdmin, core} {
			t.Run(name+" by "+who, func(t *testing.T) {
				m := referring()
				must(t, api.Create(t.Context(), m))
				patch := client.MergeFrom(m.DeepCopy())
				change(m)
				var err error
				switch {
				case name == "a status" && (who == fleetAuthor || who == core):
					return // RBAC is there before: their roles need not have it
				case name == "a status":
					err = clients[who].Status().Patch(t.Context(), m, patch)
				default:
					err = clients[who].Patch(t.Context(), m, patch)
				}
				switch who {
				case clusterAdmin, hostOperator, manager:
					must(t, err)
				default:
					refused(t, err, saysLeave)
					refused(t, err, saysTheVerb)
				}
			})
		}
	}
}

// TestWhatLeavesTheManagersFieldsAlonePasses: what core, the garbage collector and
// people write all day, on a Machine that has its Mac.
func TestWhatLeavesTheManagersFieldsAlonePasses(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Machine", Name: "m", UID: types.UID(uuid.NewString())}
	for name, c := range map[string]struct {
		who    []string
		change func(*infrav1.ScalewayAppleSiliconMachine)
	}{
		"ownerReferences": {[]string{core, collector, clusterAdmin}, func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.OwnerReferences = append(m.OwnerReferences, owner)
		}},
		"finalizers": {[]string{core, collector, fleetAuthor}, func(m *infrav1.ScalewayAppleSiliconMachine) {
			controllerutil.AddFinalizer(m, metav1.FinalizerDeleteDependents)
		}},
		"labels": {[]string{core, fleetAuthor, hostOperator, namespaceAdmin}, func(m *infrav1.ScalewayAppleSiliconMachine) {
			metav1.SetMetaDataLabel(&m.ObjectMeta, "cluster.x-k8s.io/cluster-name", "c")
		}},
		"the paused annotation": {[]string{core, fleetAuthor, hostOperator}, func(m *infrav1.ScalewayAppleSiliconMachine) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, "cluster.x-k8s.io/paused", "true")
		}},
		"what it asks of a Mac": {[]string{fleetAuthor, namespaceAdmin}, func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Spec.ReleasePolicy = infrav1.Terminate
		}},
	} {
		for _, who := range c.who {
			t.Run(name+" by "+who, func(t *testing.T) {
				m := provisionedMachine()
				must(t, api.Create(t.Context(), m))
				must(t, clients[manager].Status().Patch(t.Context(), m, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`))))
				patch := client.MergeFrom(m.DeepCopy())
				c.change(m)
				must(t, clients[who].Patch(t.Context(), m, patch))
			})
		}
	}
}

// TestNoMachineNamesAnothersMac: core deletes the Node of a Machine's providerID with
// the Machine, so that a copy of one would cost the other its Node.
func TestNoMachineNamesAnothersMac(t *testing.T) {
	claimed, free := claimedHost(), newHost()
	must(t, api.Create(t.Context(), claimed))
	must(t, api.Create(t.Context(), free))
	mac := "scw-applesilicon://fr-par-1/" + claimed.Spec.ServerID
	copied := coreMachine("copy", "copy", mac)
	// The policy knows the Host within a moment.
	must(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, rights, true, func(ctx context.Context) (bool, error) {
		err := clients[clusterAdmin].Create(ctx, copied.DeepCopy(), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), nil
	}))
	const says = "names the Mac of Machine default/m-1, whose Node would be deleted with this one: leave spec.providerID out"
	refused(t, clients[clusterAdmin].Create(t.Context(), copied.DeepCopy()), says)
	refused(t, clients[clusterAdmin].Create(t.Context(), coreMachine("copy", "m-1", mac)), says)
	// Core goes by the infrastructure's where its own is empty.
	infra := func(name, providerID string) *infrav1.ScalewayAppleSiliconMachine {
		m := newMachine()
		m.Name, m.Spec.ProviderID = name, providerID
		return m
	}
	refused(t, clients[clusterAdmin].Create(t.Context(), infra("copy", mac)), says)
	must(t, clients[clusterAdmin].Create(t.Context(), infra("m-1", mac), client.DryRunAll))
	must(t, clients[clusterAdmin].Create(t.Context(), infra("other", "scw-applesilicon://fr-par-1/"+free.Spec.ServerID), client.DryRunAll))
	for _, m := range []*clusterv1.Machine{
		coreMachine("copy", "m-1", ""), coreMachine("m-1", "m-1", mac),
		coreMachine("other", "other", "scw-applesilicon://fr-par-1/"+free.Spec.ServerID), coreMachine("other", "other", "aws:///"+claimed.Spec.ServerID),
	} {
		must(t, clients[clusterAdmin].Create(t.Context(), m, client.DryRunAll))
	}
	// Core writes it for the Machine that owns what holds the Mac, whatever its name.
	for infra, want := range map[string]string{"m-1": "", "another": says} {
		m := coreMachine("named-otherwise-"+infra, infra, "")
		must(t, api.Create(t.Context(), m))
		set := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"providerID":"`+mac+`"}}`))
		refused(t, clients[fleetAuthor].Patch(t.Context(), m.DeepCopy(), set), "ValidatingAdmissionPolicy")
		if err := clients[clusterAdmin].Patch(t.Context(), m.DeepCopy(), set); want == "" {
			must(t, err)
		} else {
			refused(t, err, want)
		}
	}
}

// TestApplyingWhatWasReadPasses: `kubectl get -o yaml | kubectl apply` of an object
// onto itself changes nothing of the manager's.
func TestApplyingWhatWasReadPasses(t *testing.T) {
	m := provisionedMachine()
	must(t, api.Create(t.Context(), m))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(m)
	must(t, err)
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(infrav1.GroupVersion.WithKind("ScalewayAppleSiliconMachine"))
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	object.SetLabels(map[string]string{"team": "ios"})
	must(t, clients[fleetAuthor].Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl"), client.ForceOwnership))
	object.SetName("copy-" + uuid.NewString())
	object.SetUID("")
	object.SetResourceVersion("")
	object.SetManagedFields(nil)
	refused(t, clients[fleetAuthor].Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl"), client.ForceOwnership), saysRemove)
}

// fieldsOfHosts says who writes each field of a Host's spec: true is people.
var fieldsOfHosts = map[string]bool{
	"serverID": false, "zone": false, "claimRef": false, "release": false, "order": false, "record": false, "failures": false,
	"maintenance": true, "quarantine": true, "reboot": true, "adopt": true, "acceptSerial": true,
}

// TestEveryFieldOfAHostIsSomebodys: a new field is decided on, here and in the policy.
func TestEveryFieldOfAHostIsSomebodys(t *testing.T) {
	spec := reflect.TypeFor[infrav1.ScalewayAppleSiliconHostSpec]()
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if _, known := fieldsOfHosts[name]; !known {
			t.Errorf("who writes spec.%s of a Host? Say so in fieldsOfHosts, and in charts/macfleet/templates/policies.yaml", name)
		}
	}
}

// TestWhoMayWriteAHost tries each field: the maintainer may write Hosts, and does not
// hold the verb claim.
func TestWhoMayWriteAHost(t *testing.T) {
	now := metav1.NowMicro()
	changes := map[string]func(*infrav1.ScalewayAppleSiliconHost){
		"claimRef": func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.ClaimRef = nil },
		"release": func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Release = &infrav1.Release{Token: "t-1", Policy: infrav1.Recycle, PoolPrefix: poolPrefix, RequestedAt: now}
		},
		"record":   func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Record.Wipe.ObservedAt = &now },
		"failures": func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Failures.Count = 0 },
		"status":   func(h *infrav1.ScalewayAppleSiliconHost) { h.Status.Phase = infrav1.HostAvailable },
		"maintenance": func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Maintenance = &infrav1.Maintenance{Reason: "fans"}
		},
		"quarantine":   func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "fans"} },
		"acceptSerial": func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.AcceptSerial = "C07XX0XXJYVX" },
		"reboot": func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Reboot = &infrav1.RebootRequest{ID: "1", Reason: "r"}
		},
		"adopt":  func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: poolPrefix} },
		"labels": func(h *infrav1.ScalewayAppleSiliconHost) { metav1.SetMetaDataLabel(&h.ObjectMeta, "rack", "7") },
	}
	for name, change := range changes {
		for _, who := range []string{maintainer, hostOperator, clusterAdmin, manager, collector} {
			t.Run(name+" by "+who, func(t *testing.T) {
				h := claimedHost()
				h.Spec.Failures.Count = 3
				must(t, api.Create(t.Context(), h))
				change(h)
				write := func() error { return clients[who].Update(t.Context(), h) }
				if name == "status" {
					if who == hostOperator {
						return // its role does not have it, and no recipe needs it
					}
					patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Available"}}`))
					write = func() error { return clients[who].Status().Patch(t.Context(), h, patch) }
				}
				err := write()
				if who != maintainer || fieldsOfHosts[name] || name == "labels" {
					must(t, err)
					return
				}
				refused(t, err, saysPeople)
				refused(t, err, saysTheVerb)
			})
		}
	}
	t.Run("order", func(t *testing.T) {
		h := orderedHost()
		must(t, api.Create(t.Context(), h))
		h.Spec.Order.Type = "M4-S"
		refused(t, clients[maintainer].Update(t.Context(), h), saysPeople)
		must(t, clients[manager].Update(t.Context(), h))
	})
	t.Run("a new Host", func(t *testing.T) {
		refused(t, clients[maintainer].Create(t.Context(), newHost()), "macfleet makes the Hosts")
		must(t, clients[manager].Create(t.Context(), newHost()))
		must(t, clients[clusterAdmin].Create(t.Context(), newHost()))
	})
}

// TestTemplatesCarryNoMac: no clone of a template can start with somebody's Mac.
func TestTemplatesCarryNoMac(t *testing.T) {
	for field, value := range map[string]any{
		"hostRef":    map[string]any{"name": "fr-par-1-x", "claimToken": "t"},
		"providerID": machineWithProviderID().Spec.ProviderID,
	} {
		t.Run(field, func(t *testing.T) {
			build := func() *unstructured.Unstructured {
				object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{field: value}}}}}
				object.SetGroupVersionKind(infrav1.GroupVersion.WithKind("ScalewayAppleSiliconMachineTemplate"))
				object.SetName("t-" + uuid.NewString())
				object.SetNamespace("default")
				return object
			}
			refused(t, client.WithFieldValidation(api, metav1.FieldValidationStrict).Create(t.Context(), build()), `unknown field "spec.template.spec.`+field)
			object := build()
			must(t, api.Create(t.Context(), object))
			if _, found, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", field); found {
				t.Errorf("the template keeps %s", field)
			}
		})
	}
}
