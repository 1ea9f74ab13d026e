package rollout

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
)

func agent() document.Agent { return document.Agent{SHA256: strings.Repeat("a", 64), Version: "v1"} }

// anyKey is a public key that nobody has: of the zero point.
const anyKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// full has each field of a profile that is about a Mac set to other than its default.
func full() *infrav1.MacNodeProfile {
	return &infrav1.MacNodeProfile{Spec: infrav1.MacNodeProfileSpec{
		Tart: &infrav1.TartRelease{Version: "2.30.0", Source: "https://example.com/tart.tar.gz", SHA256: strings.Repeat("b", 64)},
		Node: infrav1.NodeSettings{
			Labels: map[string]infrav1.LabelValue{"team": "ios"}, MaxVMs: 1, KubeletPort: ptr.To[int32](0),
			Taints: &[]infrav1.Taint{{Key: "mac", Effect: corev1.TaintEffectNoExecute}},
		},
		Network: infrav1.NetworkSettings{
			Subnet:      "192.168.70.0/24",
			GuestEgress: infrav1.GuestEgress{DenyPrivate: ptr.To(false), Allow: []infrav1.EgressRule{{CIDR: "10.1.0.0/16", Ports: []int32{443}}}},
			SSHIngress:  infrav1.SSHIngress{Allow: []string{"203.0.113.0/24"}},
			HostIngress: infrav1.HostIngress{Allow: []infrav1.HostIngressRule{{CIDR: "203.0.113.0/24", Ports: []int32{9100}}}},
		},
		SSHAccess:   infrav1.SSHAccess{AuthorizedKeys: []string{anyKey + " ada"}},
		Session:     infrav1.SessionSettings{AutoLogin: ptr.To(false), ScreenSharing: true},
		Storage:     infrav1.StorageSettings{Quota: ptr.To(resource.MustParse("300G"))},
		ProofReboot: ptr.To(false),
		Images:      infrav1.ImageSettings{PrePull: []string{"registry.test/macos/base:v1"}, GCHighPercent: 84, GCLowPercent: 70},
		Pods:        infrav1.PodSettings{HostPaths: []string{"/Users/Shared/cache"}},
	}}
}

func TestDesired(t *testing.T) {
	want := document.Desired{
		Schema: document.DesiredSchema, Agent: agent(),
		Node: document.Node{Labels: map[string]string{"team": "ios"}, Taints: []document.Taint{{Key: "mac", Effect: "NoExecute"}}, MaxVMs: 1},
		Mac: document.Mac{
			Tart:            &document.Tart{Version: "2.30.0", URL: "https://example.com/tart.tar.gz", SHA256: strings.Repeat("b", 64)},
			GuestQuotaBytes: 300e9, ScreenSharing: true, AuthorizedKeys: []string{anyKey + " ada"},
			Network: document.Network{
				Subnet: "192.168.70.0/24", Allow: []document.Allow{{CIDR: "10.1.0.0/16", Ports: []int{443}}}, SSHFrom: []string{"203.0.113.0/24"},
				HostAllow: []document.Allow{{CIDR: "203.0.113.0/24", Ports: []int{9100}}},
			},
		},
		Images:  document.Images{PrePull: []string{"registry.test/macos/base:v1"}, GCHighPercent: 84, GCLowPercent: 70},
		Pods:    document.Pods{HostPaths: []string{"/Users/Shared/cache"}},
		Kubelet: document.Kubelet{Port: ptr.To(0), ClientCA: []byte("ca")},
	}
	if diff := cmp.Diff(want, Desired(full(), agent(), []byte("ca"))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	plain := document.Desired{
		Schema: document.DesiredSchema, Agent: agent(),
		Node:   document.Node{Taints: []document.Taint{{Key: "tuist.dev/macos", Value: "true", Effect: "NoSchedule"}}, MaxVMs: 2},
		Mac:    document.Mac{AutoLogin: true, ProofReboot: true, Network: document.Network{Subnet: document.DefaultSubnet, DenyPrivate: true}},
		Images: document.Images{GCHighPercent: 85, GCLowPercent: 80},
	}
	if diff := cmp.Diff(plain, Desired(&infrav1.MacNodeProfile{}, agent(), nil)); diff != "" {
		t.Errorf("the built-in profile (-want +got)\n%s", diff)
	}
}

// Requirement 004: a field of the profile that reaches no Mac would get lost in
// silence. Each that is about a Mac changes the revision when it alone changes;
// each that is about the rollout does not.
func TestRequirement004_NoFieldOfAProfileGetsLost(t *testing.T) {
	before := Revision(&infrav1.MacNodeProfile{}, agent(), nil)
	fields := reflect.TypeFor[infrav1.MacNodeProfileSpec]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		profile := &infrav1.MacNodeProfile{}
		from := full()
		from.Spec.Rollout = infrav1.RolloutPolicy{MaxUnavailable: 3, Paused: true}
		from.Spec.AgentVersion = "v9"
		from.Spec.MaxOrdered = ptr.To[int32](1)
		value := reflect.ValueOf(&from.Spec).Elem().Field(i)
		if value.IsZero() {
			t.Errorf("%s: this test does not set it", name)
		}
		reflect.ValueOf(&profile.Spec).Elem().Field(i).Set(value)
		changed := Revision(profile, agent(), nil) != before
		if ofMac := name != "Rollout" && name != "AgentVersion" && name != "MaxOrdered"; changed != ofMac {
			t.Errorf("%s changes the revision: %t, want %t", name, changed, ofMac)
		}
	}
	if other := (document.Agent{SHA256: strings.Repeat("c", 64), Version: "v1"}); Revision(&infrav1.MacNodeProfile{}, other, nil) == before {
		t.Error("another build is the same revision")
	}
	if Revision(&infrav1.MacNodeProfile{}, agent(), []byte("ca")) == before {
		t.Error("another authority of the API server's clients is the same revision, and no Mac would be told of it")
	}
	usual := &infrav1.MacNodeProfile{}
	usual.Spec.Node.KubeletPort = ptr.To[int32](document.DefaultKubeletPort)
	if Revision(usual, agent(), nil) != before {
		t.Error("to name the kubelet's usual port is another revision")
	}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*infrav1.MacNodeProfileSpec)
		says   string
	}{
		"as it should be": {func(*infrav1.MacNodeProfileSpec) {}, ""},
		"label":           {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels = map[string]infrav1.LabelValue{"a b": ""} }, "spec.node.labels"},
		"label's value":   {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels = map[string]infrav1.LabelValue{"a": "b c"} }, "spec.node.labels"},
		"taint": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Taints = &[]infrav1.Taint{{Key: "-", Effect: "NoSchedule"}}
		}, "spec.node.taints"},
		"taint's effect": {func(s *infrav1.MacNodeProfileSpec) { s.Node.Taints = &[]infrav1.Taint{{Key: "a", Effect: "Evict"}} }, "known: NoSchedule"},
		"taint twice": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Taints = &[]infrav1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Value: "b", Effect: "NoSchedule"}}
		}, "a:NoSchedule is there twice"},
		"taint of two effects": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Taints = &[]infrav1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: "a", Effect: "NoExecute"}}
		}, ""},
		"taint of Kubernetes": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Taints = &[]infrav1.Taint{{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}}
		}, "Kubernetes' own"},
		"taint of a role": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Taints = &[]infrav1.Taint{{Key: "node-role.kubernetes.io/mac", Effect: "NoSchedule"}}
		}, "Kubernetes' own"},
		"label of a fact": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Labels = map[string]infrav1.LabelValue{"kubernetes.io/os": "linux"}
		}, "kubernetes.io/os says what each Mac is"},
		"label of the fleet": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Labels = map[string]infrav1.LabelValue{"tuist.dev/fleet": "b"}
		}, "tuist.dev/fleet says what each Mac is"},
		"label of a role": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Labels = map[string]infrav1.LabelValue{"node-role.kubernetes.io/mac": ""}
		}, "may not set"},
		"label of Kubernetes": {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels = map[string]infrav1.LabelValue{"a.k8s.io/b": ""} }, "may not set"},
		"label of a node": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Labels = map[string]infrav1.LabelValue{"node.kubernetes.io/b": ""}
		}, ""},
		"label of a region": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Labels = map[string]infrav1.LabelValue{"topology.kubernetes.io/region": "fr-par"}
		}, ""},
		"subnet":          {func(s *infrav1.MacNodeProfileSpec) { s.Network.Subnet = "8.8.8.0/24" }, "subnet"},
		"host bits":       {func(s *infrav1.MacNodeProfileSpec) { s.Network.GuestEgress.Allow[0].CIDR = "10.0.0.1/8" }, "cidr"},
		"port":            {func(s *infrav1.MacNodeProfileSpec) { s.Network.GuestEgress.Allow[0].Ports[0] = 0 }, "ports"},
		"SSH":             {func(s *infrav1.MacNodeProfileSpec) { s.Network.SSHIngress.Allow[0] = "office" }, "sshFrom"},
		"a key":           {func(s *infrav1.MacNodeProfileSpec) { s.SSHAccess.AuthorizedKeys[0] = "ssh-ed25519 AAAA" }, "mac.authorizedKeys[0]"},
		"no port":         {func(s *infrav1.MacNodeProfileSpec) { s.Network.HostIngress.Allow[0].Ports = nil }, "hostAllow[0].ports"},
		"version of tart": {func(s *infrav1.MacNodeProfileSpec) { s.Tart.Version = "../2" }, "tart.version"},
		"hash of tart":    {func(s *infrav1.MacNodeProfileSpec) { s.Tart.SHA256 = "abc" }, "tart.sha256"},
		"quota":           {func(s *infrav1.MacNodeProfileSpec) { s.Storage.Quota = ptr.To(resource.MustParse("1M")) }, "guestQuota"},
		"local image":     {func(s *infrav1.MacNodeProfileSpec) { s.Images.PrePull = []string{"base"} }, "images.prePull[0]"},
		"thresholds":      {func(s *infrav1.MacNodeProfileSpec) { s.Images.GCHighPercent = 60 }, "images.gcLowPercent"},
		"whole disk":      {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths = []string{"/"} }, "pods.hostPaths[0]"},
		"three guests":    {func(s *infrav1.MacNodeProfileSpec) { s.Node.MaxVMs = 3 }, "maxVMs"},
	} {
		profile := full()
		c.change(&profile.Spec)
		err := Check(profile)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; it should say %q", name, err, c.says)
		}
	}
}
