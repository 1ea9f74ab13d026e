package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func newControlPlane() *controlplanev1.ExternalControlPlane {
	return &controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{Name: "e-" + uuid.NewString(), Namespace: "default"}}
}

func templateWith(change func(*infrav1.MachineClass)) client.Object {
	t := newTemplate()
	change(&t.Spec.Template.Spec)
	return t
}

func profileWith(change func(*infrav1.MacNodeProfileSpec)) client.Object {
	p := newProfile()
	change(&p.Spec)
	return p
}

func manyLabels[Value ~string](n int) map[string]Value {
	labels := map[string]Value{}
	for i := range n {
		labels[fmt.Sprintf("example.com/label-%d", i)] = "x"
	}
	return labels
}

// TestFreeFormFieldsHaveLimits: what people write is bounded, and no line break gets
// into what becomes a name, a label or a line of a log.
func TestFreeFormFieldsHaveLimits(t *testing.T) {
	selector := func(change func(*infrav1.HostSelector)) client.Object {
		return templateWith(func(c *infrav1.MachineClass) {
			c.HostSelector = &infrav1.HostSelector{}
			change(c.HostSelector)
		})
	}
	reference := func(name, token string) client.Object {
		m := newMachine()
		m.Spec.HostRef = &infrav1.HostReference{Name: name, ClaimToken: token}
		return m
	}
	claim := func(ref infrav1.ClaimReference) client.Object {
		h := newHost()
		h.Spec.ClaimRef = &ref
		return h
	}
	plane := func(change func(*controlplanev1.ExternalControlPlaneSpec)) client.Object {
		e := newControlPlane()
		change(&e.Spec)
		return e
	}
	zones := newCluster()
	zones.Spec.Zones = []string{"fr-par-" + strings.Repeat("1", 40)}
	for name, c := range map[string]struct {
		object client.Object
		says   string
	}{
		"a type of two lines":       {templateWith(func(c *infrav1.MachineClass) { c.Type = "M2-L\nM4-S" }), "spec.template.spec.type"},
		"a zone without end":        {templateWith(func(c *infrav1.MachineClass) { c.Zone = "fr-par-" + strings.Repeat("1", 40) }), "spec.template.spec.zone"},
		"a fleet of two lines":      {templateWith(func(c *infrav1.MachineClass) { c.FleetName = "a\nb" }), "spec.template.spec.fleetName"},
		"a profile that is no name": {templateWith(func(c *infrav1.MachineClass) { c.ProfileRef = &infrav1.ProfileReference{Name: "a b"} }), "profileRef.name"},
		"33 labels to match":        {selector(func(s *infrav1.HostSelector) { s.MatchLabels = manyLabels[infrav1.LabelValue](33) }), "matchLabels"},
		"a label to match, too long": {selector(func(s *infrav1.HostSelector) {
			s.MatchLabels = map[string]infrav1.LabelValue{"a": infrav1.LabelValue(strings.Repeat("x", 64))}
		}), "matchLabels.a"},
		"33 expressions": {selector(func(s *infrav1.HostSelector) { s.MatchExpressions = make([]infrav1.HostSelectorRequirement, 33) }), "matchExpressions"},
		"an operator that is none": {selector(func(s *infrav1.HostSelector) {
			s.MatchExpressions = []infrav1.HostSelectorRequirement{{Key: "a", Operator: "Near"}}
		}), `supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		"a label's value with blanks": {profileWith(func(p *infrav1.MacNodeProfileSpec) {
			p.Node.Labels = map[string]infrav1.LabelValue{"team": "ios and mac"}
		}), "labels.team"},
		"a label's value of two lines": {profileWith(func(p *infrav1.MacNodeProfileSpec) { p.Node.Labels = map[string]infrav1.LabelValue{"team": "ios\nmac"} }), "labels.team"},
		"a label's key with blanks":    {profileWith(func(p *infrav1.MacNodeProfileSpec) { p.Node.Labels = map[string]infrav1.LabelValue{"my team": "ios"} }), "no blanks and no line breaks"},
		"a host that is no name":       {reference("fr-par-1\nx", "t"), "hostRef.name"},
		"a token of two lines":         {reference("fr-par-1-x", "a\nb"), "claimToken"},
		"a token without end":          {reference("fr-par-1-x", strings.Repeat("x", 129)), "claimToken"},
		"an owner without end":         {claim(infrav1.ClaimReference{Namespace: "default", Name: strings.Repeat("x", 513), Token: "t"}), "claimRef.name"},
		"an owner's namespace":         {claim(infrav1.ClaimReference{Namespace: strings.Repeat("x", 64), Name: "m", Token: "t"}), "claimRef.namespace"},
		"a zone of a Cluster":          {zones, "spec.zones[0]"},
		"a version of two lines":       {plane(func(e *controlplanev1.ExternalControlPlaneSpec) { e.Version = "v1.34.0\n" }), "spec.version"},
		"a cluster's id":               {plane(func(e *controlplanev1.ExternalControlPlaneSpec) { e.ClusterID = strings.Repeat("a", 65) }), "spec.clusterID"},
	} {
		t.Run(name, func(t *testing.T) {
			err := api.Create(t.Context(), c.object)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want a refusal that says %q", err, c.says)
			}
		})
	}
}

// TestWhatIsReasonableStaysWithinTheLimits: templates and Machines of earlier releases
// can be made again.
func TestWhatIsReasonableStaysWithinTheLimits(t *testing.T) {
	class := func(c *infrav1.MachineClass) {
		*c = infrav1.MachineClass{
			Zone: "fr-par-1", Type: "M2-L", OS: "tahoe", AdoptPoolPrefix: poolPrefix, Acquisition: infrav1.Adopt, ReleasePolicy: infrav1.Recycle,
			FleetName: "tuist-tuist-macos-builders", ProfileRef: &infrav1.ProfileReference{Name: "tuist.builders-1"},
			HostSelector: &infrav1.HostSelector{
				MatchLabels: manyLabels[infrav1.LabelValue](32),
				MatchExpressions: []infrav1.HostSelectorRequirement{
					{Key: infrav1.LabelMemory, Operator: metav1.LabelSelectorOpIn, Values: []infrav1.LabelValue{"16", "24"}},
					{Key: "example.com/broken", Operator: metav1.LabelSelectorOpDoesNotExist},
				},
			},
		}
	}
	must(t, api.Create(t.Context(), templateWith(class)))
	m := newMachine()
	class(&m.Spec.MachineClass)
	m.Spec.HostRef = &infrav1.HostReference{Name: "order-" + m.Name, ClaimToken: uuid.NewString()}
	must(t, api.Create(t.Context(), m))
	must(t, api.Create(t.Context(), profileWith(func(p *infrav1.MacNodeProfileSpec) {
		p.Node.Labels = manyLabels[infrav1.LabelValue](63)
		p.Node.Labels["macfleet.dev/sandbox"] = "true"
	})))
	h := newHost()
	h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "-", Name: "Jane's test Mac (old)", Token: uuid.NewString()}
	must(t, api.Create(t.Context(), h))
	e := newControlPlane()
	e.Spec.Version, e.Spec.ClusterID = "v1.34.1+k3s1", uuid.NewString()
	must(t, api.Create(t.Context(), e))
}
