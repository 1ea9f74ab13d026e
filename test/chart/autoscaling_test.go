package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/macnode"
	"github.com/macfleet/macfleet/internal/rollout"
)

const capacityOf = "capacity.cluster-autoscaler.kubernetes.io/"

// into decodes a rendered object.
func into[T any](t *testing.T, object *unstructured.Unstructured, typed *T) *T {
	t.Helper()
	if object == nil {
		t.Fatal("the chart did not render it")
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		t.Fatal(err)
	}
	return typed
}

// TestWhatTheAutoscalerIsToldIsWhatMacsRegister: the labels, taints and guests that the
// chart writes for an autoscaler are those that the agent gives the Node of a Mac with
// the profile that the chart writes.
func TestWhatTheAutoscalerIsToldIsWhatMacsRegister(t *testing.T) {
	fleet := []string{"fleets.builders.zone=fr-par-1", "fleets.builders.type=M2-L", "fleets.builders.autoscaling.max=5"}
	for name, values := range map[string][]string{
		"plain":     nil,
		"labels":    {`fleets.builders.profile.labels.example\.com/team=ios`, "fleets.builders.profile.labels.xcode=v26"},
		"taints":    {"fleets.builders.profile.taints[0].key=team", "fleets.builders.profile.taints[0].value=ios", "fleets.builders.profile.taints[0].effect=NoExecute", "fleets.builders.profile.taints[1].key=macs", "fleets.builders.profile.taints[1].effect=NoSchedule"},
		"one guest": {"fleets.builders.profile.maxVMs=1"},
		"its name":  {"fleets.builders.name=our-macs"},
	} {
		t.Run(name, func(t *testing.T) {
			told, want, zone := rendered(t, append(slices.Clone(fleet), values...)...)
			host := document.Host{Zone: zone.Zone, ServerType: zone.Type, Fleet: zone.FleetName}
			if diff := cmp.Diff(macnode.Labels(host, want.Node.Labels), pairs(told[capacityOf+"labels"])); diff != "" {
				t.Errorf("labels (-agent +chart):\n%s", diff)
			}
			var taints []string
			for _, taint := range macnode.Taints(want.Node) {
				taints = append(taints, taint.ToString())
			}
			if got := told[capacityOf+"taints"]; got != strings.Join(taints, ",") {
				t.Errorf("taints %q, the agent gives %q", got, taints)
			}
			guests := macnode.Capacity(macnode.Hardware{}, want.Node)[macnode.VMResource]
			guests.Add(resource.MustParse("1"))
			if got := told[capacityOf+"maxPods"]; got != guests.String() {
				t.Errorf("maxPods %s, want %s: one for each guest, and one for a kube-proxy", got, guests.String())
			}
		})
	}
}

// rendered are the annotations of the fleet's MachineDeployment, what its profile asks
// of each Mac, and what its template asks for.
func rendered(t *testing.T, values ...string) (map[string]string, document.Desired, infrav1.MachineClass) {
	t.Helper()
	all := objects(t, set(values...)...)
	find := func(kind string) *unstructured.Unstructured {
		i := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
		if i < 0 {
			t.Fatalf("no %s", kind)
		}
		return all[i]
	}
	deployment := into(t, find("MachineDeployment"), &clusterv1.MachineDeployment{})
	profile := into(t, find("MacNodeProfile"), &infrav1.MacNodeProfile{})
	template := into(t, find("ScalewayAppleSiliconMachineTemplate"), &infrav1.ScalewayAppleSiliconMachineTemplate{})
	return deployment.Annotations, rollout.Desired(profile, document.Agent{}, nil), template.Spec.Template.Spec
}

// pairs reads a=b,c=d.
func pairs(list string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(list, ",") {
		key, value, _ := strings.Cut(pair, "=")
		out[key] = value
	}
	return out
}

// TestAScaledFleetIsTheAutoscalers: its size is in no manifest, so that no upgrade sets
// it back, its Machines' Nodes are held while they are paid for, and all that is so of
// no other fleet.
func TestAScaledFleetIsTheAutoscalers(t *testing.T) {
	const group = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
	deployment := func(values ...string) *clusterv1.MachineDeployment {
		all := objects(t, set(append([]string{"fleets.builders.zone=fr-par-1", "fleets.builders.type=M2-L"}, values...)...)...)
		return into(t, named(all, "MachineDeployment", "macfleet-builders"), &clusterv1.MachineDeployment{})
	}
	scaled := deployment("fleets.builders.autoscaling.min=1", "fleets.builders.autoscaling.max=5")
	if scaled.Spec.Replicas != nil {
		t.Errorf("replicas = %d", *scaled.Spec.Replicas)
	}
	if least, most := scaled.Annotations[group+"min-size"], scaled.Annotations[group+"max-size"]; least != "1" || most != "5" {
		t.Errorf("from %q to %q", least, most)
	}
	if least := deployment("fleets.builders.autoscaling.max=5").Annotations[group+"min-size"]; least != "0" {
		t.Errorf("from %q", least)
	}
	if got := scaled.Spec.Template.Annotations[infrav1.AutoscaledAnnotation]; got != "true" {
		t.Errorf("its Machines are told %q", got)
	}
	plain := deployment()
	if plain.Spec.Replicas == nil || *plain.Spec.Replicas != 0 || len(plain.Annotations) != 0 || len(plain.Spec.Template.Annotations) != 0 {
		t.Errorf("a fleet that nobody scales: replicas %v, annotations %v and %v", plain.Spec.Replicas, plain.Annotations, plain.Spec.Template.Annotations)
	}
}
