package api

import (
	"slices"
	"testing"

	"github.com/google/uuid"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// changes are a change of each kind of template that has a content.
var changes = map[string]struct {
	template func(metav1.ObjectMeta) client.Object
	change   func(client.Object)
}{
	"machine template": {
		func(m metav1.ObjectMeta) client.Object {
			t := &infrav1.ScalewayAppleSiliconMachineTemplate{ObjectMeta: m}
			t.Spec.Template.Spec.Type = "M2-L"
			return t
		},
		func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconMachineTemplate).Spec.Template.Spec.Type = "M4-M"
		},
	},
	"cluster template": {
		func(m metav1.ObjectMeta) client.Object {
			t := &infrav1.ScalewayAppleSiliconClusterTemplate{ObjectMeta: m}
			t.Spec.Template.Spec.Zones = []string{"fr-par-1"}
			return t
		},
		func(o client.Object) {
			o.(*infrav1.ScalewayAppleSiliconClusterTemplate).Spec.Template.Spec.Zones = []string{"fr-par-3"}
		},
	},
	"control plane template": {
		func(m metav1.ObjectMeta) client.Object {
			t := &controlplanev1.ExternalControlPlaneTemplate{ObjectMeta: m}
			t.Spec.Template.Spec.Kubeconfig = controlplanev1.KubeconfigMinted
			return t
		},
		func(o client.Object) {
			o.(*controlplanev1.ExternalControlPlaneTemplate).Spec.Template.Spec.Kubeconfig = controlplanev1.KubeconfigProvided
		},
	},
}

// The topology controller applies what it would want to a template that is there, as a dry run,
// to see whether it needs another. That passes, and nothing else that changes a template.
func TestContract_TemplatesPassTheTopologysDryRun(t *testing.T) {
	annotation := map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			template := c.template(metav1.ObjectMeta{Name: "t-" + uuid.NewString(), Namespace: "default"})
			must(t, api.Create(t.Context(), template))
			update := func(annotations map[string]string, options ...client.UpdateOption) error {
				changed := template.DeepCopyObject().(client.Object)
				changed.SetAnnotations(annotations)
				c.change(changed)
				return clients[clusterAdmin].Update(t.Context(), changed, options...)
			}
			refused(t, update(nil), "is immutable")
			refused(t, update(nil, client.DryRunAll), "is immutable")
			refused(t, update(annotation), "is immutable")
			must(t, update(annotation, client.DryRunAll))

			// What Machines are not made of may change.
			template.SetLabels(map[string]string{"team.example/owner": "build"})
			must(t, clients[clusterAdmin].Update(t.Context(), template))
		})
	}
}

// Core watches our kinds and owns what it made; what a topology makes it creates and deletes.
// Hosts and profiles are none of its business, and a status is never written by it.
func TestContract_CoreHasItsRightsAndNoMore(t *testing.T) {
	role := &rbacv1.ClusterRole{}
	must(t, api.Get(t.Context(), client.ObjectKey{Name: "macfleet-capi-aggregate"}, role))
	if role.Labels["cluster.x-k8s.io/aggregate-to-manager"] != "true" {
		t.Errorf("labels %v: core's role does not take it up", role.Labels)
	}
	reads := []string{"get", "list", "patch", "watch"}
	makes := append([]string{"create", "delete"}, reads...)
	onlyRead := []string{"ScalewayAppleSiliconClusterTemplate", "ScalewayAppleSiliconRemediationTemplate", "ExternalControlPlaneTemplate"}
	for kind, crd := range ours(t) {
		want := makes
		switch {
		case kind == "ScalewayAppleSiliconHost" || kind == "MacNodeProfile":
			want = nil
		case slices.Contains(onlyRead, kind):
			want = reads
		}
		if got := verbsOf(role, crd.Spec.Group, crd.Spec.Names.Plural); !slices.Equal(got, want) {
			t.Errorf("%s: core may %q, want %q", kind, got, want)
		}
		if got := verbsOf(role, crd.Spec.Group, crd.Spec.Names.Plural+"/status"); got != nil {
			t.Errorf("the status of %s: core may %q", kind, got)
		}
	}
}

// verbsOf are those that a role gives, each once and in order.
func verbsOf(role *rbacv1.ClusterRole, group, resource string) []string {
	var verbs []string
	for _, rule := range role.Rules {
		ofGroup := slices.Contains(rule.APIGroups, group) || slices.Contains(rule.APIGroups, rbacv1.APIGroupAll)
		if ofGroup && (slices.Contains(rule.Resources, resource) || slices.Contains(rule.Resources, rbacv1.ResourceAll)) {
			verbs = append(verbs, rule.Verbs...)
		}
	}
	slices.Sort(verbs)
	return slices.Compact(verbs)
}

// As core does it: by server-side apply, with the rights that the chart gives it.
func TestContract_CoreMayApplyTemplates(t *testing.T) {
	name := "t-" + uuid.NewString()
	apply := func(kind string, spec map[string]any, options ...client.ApplyOption) error {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": spec}}}}
		object.SetGroupVersionKind(infrav1.GroupVersion.WithKind(kind))
		if kind == "MacBootstrapConfigTemplate" {
			object.SetGroupVersionKind(bootstrapv1.GroupVersion.WithKind(kind))
		}
		object.SetName(name)
		object.SetNamespace("default")
		if len(options) > 0 {
			object.SetAnnotations(map[string]string{clusterv1.TopologyDryRunAnnotation: ""})
		}
		options = append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)
		return clients[core].Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), options...)
	}
	must(t, apply("ScalewayAppleSiliconMachineTemplate", map[string]any{"type": "M2-L"}))
	must(t, apply("ScalewayAppleSiliconMachineTemplate", map[string]any{"type": "M4-M"}, client.DryRunAll))
	refused(t, apply("ScalewayAppleSiliconMachineTemplate", map[string]any{"type": "M4-M"}), "is immutable")
	must(t, apply("MacBootstrapConfigTemplate", map[string]any{}))
	must(t, apply("MacBootstrapConfigTemplate", map[string]any{}, client.DryRunAll))

	kept := &infrav1.ScalewayAppleSiliconMachineTemplate{}
	must(t, api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, kept))
	if kept.Spec.Template.Spec.Type != "M2-L" {
		t.Errorf("a dry run has changed the template: %+v", kept.Spec.Template.Spec)
	}
}
