package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// wholeProfile sets what a profile can set.
func wholeProfile() *infrav1.MacNodeProfile {
	p := newProfile()
	p.Spec = infrav1.MacNodeProfileSpec{
		Tart: &infrav1.TartRelease{Version: "2.30.0", Source: "https://example.com/tart.tar.gz", SHA256: strings.Repeat("a", 64)},
		Node: infrav1.NodeSettings{Labels: map[string]infrav1.LabelValue{"example.com/team": "ios"}, MaxVMs: 1},
		Network: infrav1.NetworkSettings{
			Subnet: "172.16.8.0/22",
			GuestEgress: infrav1.GuestEgress{
				DenyPrivate: ptr.To(true), Allow: []infrav1.EgressRule{{CIDR: "10.1.0.0/16", Ports: []int32{443}}, {CIDR: "2001:db8::/32"}},
			},
			SSHIngress: infrav1.SSHIngress{Allow: []string{"203.0.113.0/24"}},
		},
		Session:      infrav1.SessionSettings{AutoLogin: ptr.To(false)},
		Storage:      infrav1.StorageSettings{Quota: ptr.To(resource.MustParse("40G"))},
		ProofReboot:  ptr.To(false),
		Images:       infrav1.ImageSettings{PrePull: []string{"registry.test/macos/base:v1"}, GCHighPercent: 84, GCLowPercent: 70},
		Pods:         infrav1.PodSettings{HostPaths: []string{"/Users/Shared/my cache"}},
		Rollout:      infrav1.RolloutPolicy{MaxUnavailable: 2, Canary: ptr.To[int32](0), Soak: &metav1.Duration{Duration: 90 * time.Second}, Paused: true},
		AgentVersion: "v0.1.0",
	}
	return p
}

// taints are written key:effect.
func taints(texts ...string) *[]infrav1.Taint {
	list := []infrav1.Taint{}
	for _, text := range texts {
		key, effect, _ := strings.Cut(text, ":")
		list = append(list, infrav1.Taint{Key: key, Effect: corev1.TaintEffect(effect)})
	}
	return &list
}

func TestNonsenseInAProfileIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*infrav1.MacNodeProfileSpec)
		says   string
	}{
		"nothing wrong":         {func(*infrav1.MacNodeProfileSpec) {}, ""},
		"a long label":          {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels["a"] = infrav1.LabelValue(strings.Repeat("b", 64)) }, "labels.a"},
		"a node's role":         {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels["node-role.kubernetes.io/mac"] = "" }, "may not set labels below"},
		"a label of Kubernetes": {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels["a.k8s.io/b"] = "" }, "may not set labels below"},
		"a label of nodes":      {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels["node.kubernetes.io/b"] = "" }, ""},
		"another system":        {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels["kubernetes.io/os"] = "linux" }, "say what each Mac is"},
		"another fleet":         {func(s *infrav1.MacNodeProfileSpec) { s.Node.Labels[infrav1.FleetLabel] = "b" }, "say what each Mac is"},
		"a taint twice":         {func(s *infrav1.MacNodeProfileSpec) { s.Node.Taints = taints("a:NoSchedule", "a:NoSchedule") }, "Duplicate value"},
		"a taint of two effects": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Taints = taints("example.com/a:NoSchedule", "example.com/a:NoExecute")
		}, ""},
		"no taint at all":      {func(s *infrav1.MacNodeProfileSpec) { s.Node.Taints = taints() }, ""},
		"a taint with a blank": {func(s *infrav1.MacNodeProfileSpec) { s.Node.Taints = taints("a b:NoSchedule") }, "taints[0].key"},
		"a taint's odd value": {func(s *infrav1.MacNodeProfileSpec) {
			s.Node.Taints = taints("a:NoSchedule")
			(*s.Node.Taints)[0].Value = "-"
		}, "taints[0].value"},
		"a taint's odd effect":    {func(s *infrav1.MacNodeProfileSpec) { s.Node.Taints = taints("a:Evict") }, "taints[0].effect"},
		"a taint of Kubernetes":   {func(s *infrav1.MacNodeProfileSpec) { s.Node.Taints = taints("node.kubernetes.io/not-ready:NoExecute") }, "Kubernetes' own"},
		"a public subnet":         {func(s *infrav1.MacNodeProfileSpec) { s.Network.Subnet = "8.8.8.0/24" }, "no private IPv4 network"},
		"a subnet of an address":  {func(s *infrav1.MacNodeProfileSpec) { s.Network.Subnet = "192.168.64.1/24" }, "no private IPv4 network"},
		"a subnet that is wide":   {func(s *infrav1.MacNodeProfileSpec) { s.Network.Subnet = "10.0.0.0/8" }, "no private IPv4 network"},
		"a subnet in words":       {func(s *infrav1.MacNodeProfileSpec) { s.Network.Subnet = "home" }, "no private IPv4 network"},
		"an address for a CIDR":   {func(s *infrav1.MacNodeProfileSpec) { s.Network.GuestEgress.Allow[0].CIDR = "10.0.0.1" }, "is no network"},
		"host bits":               {func(s *infrav1.MacNodeProfileSpec) { s.Network.GuestEgress.Allow[0].CIDR = "10.0.0.1/8" }, "is no network"},
		"port 0":                  {func(s *infrav1.MacNodeProfileSpec) { s.Network.GuestEgress.Allow[0].Ports[0] = 0 }, "ports"},
		"SSH from a name":         {func(s *infrav1.MacNodeProfileSpec) { s.Network.SSHIngress.Allow[0] = "office" }, "is no network"},
		"a path for a version":    {func(s *infrav1.MacNodeProfileSpec) { s.Tart.Version = "../1" }, "tart.version"},
		"tart from a file":        {func(s *infrav1.MacNodeProfileSpec) { s.Tart.Source = "file:///tart" }, "tart.source"},
		"tart from anybody":       {func(s *infrav1.MacNodeProfileSpec) { s.Tart.Source = "http://example.com/tart.tar.gz" }, "tart.source"},
		"tart of no team":         {func(s *infrav1.MacNodeProfileSpec) { s.Tart.TeamID = "us" }, "tart.teamID"},
		"half a hash":             {func(s *infrav1.MacNodeProfileSpec) { s.Tart.SHA256 = "abc" }, "tart.sha256"},
		"a quota for nobody":      {func(s *infrav1.MacNodeProfileSpec) { s.Storage.Quota = ptr.To(resource.MustParse("39G")) }, "40G or more"},
		"an image twice":          {func(s *infrav1.MacNodeProfileSpec) { s.Images.PrePull = append(s.Images.PrePull, s.Images.PrePull...) }, "Duplicate value"},
		"an image of none":        {func(s *infrav1.MacNodeProfileSpec) { s.Images.PrePull[0] = "base" }, "is no image of a registry"},
		"half a digest":           {func(s *infrav1.MacNodeProfileSpec) { s.Images.PrePull[0] = "r.test/a@sha256:ab" }, "is no image of a registry"},
		"a low above the default": {func(s *infrav1.MacNodeProfileSpec) { s.Images = infrav1.ImageSettings{GCLowPercent: 85} }, "gcLowPercent 85 must be below gcHighPercent 85"},
		"a high below the low":    {func(s *infrav1.MacNodeProfileSpec) { s.Images.GCHighPercent = 70 }, "gcLowPercent 70 must be below gcHighPercent 70"},
		"a high alone":            {func(s *infrav1.MacNodeProfileSpec) { s.Images = infrav1.ImageSettings{GCHighPercent: 81} }, ""},
		"into DiskPressure":       {func(s *infrav1.MacNodeProfileSpec) { s.Images.GCHighPercent = 86 }, "gcHighPercent"},
		"a Pod's whole disk":      {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/" }, "is no path of a directory"},
		"a Pod in our files":      {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/VAR/db/macfleet-agent" }, "of the node's own files"},
		"a Pod above our files":   {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/private" }, "of the node's own files"},
		"a Pod by inodes":         {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/.vol/16777234/2/etc" }, "of the node's own files"},
		"a Pod on the disk again": {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/Volumes/Macintosh HD/etc" }, "of the node's own files"},
		"a Pod on another volume": {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/Volumes/cache" }, ""},
		"a Pod's way up":          {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/Users/../etc" }, "is no path of a directory"},
		"a Pod's path with a :":   {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/Users:ro" }, "is no path of a directory"},
		"a Pod's path of lines":   {func(s *infrav1.MacNodeProfileSpec) { s.Pods.HostPaths[0] = "/Users\n/a" }, "is no path of a directory"},
		"a soak of days":          {func(s *infrav1.MacNodeProfileSpec) { s.Rollout.Soak.Duration = 25 * time.Hour }, "between 0s and 24h"},
		"a negative soak":         {func(s *infrav1.MacNodeProfileSpec) { s.Rollout.Soak.Duration = -time.Second }, "between 0s and 24h"},
		"fewer canaries than 0":   {func(s *infrav1.MacNodeProfileSpec) { s.Rollout.Canary = ptr.To[int32](-1) }, "rollout.canary"},
		"a version with a blank":  {func(s *infrav1.MacNodeProfileSpec) { s.AgentVersion = "v 1" }, "agentVersion"},
		"fewer than nobody apart": {func(s *infrav1.MacNodeProfileSpec) { s.Rollout.MaxUnavailable = -1 }, "maxUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			p := wholeProfile()
			c.change(&p.Spec)
			err := api.Create(t.Context(), p)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; it should say %q", err, c.says)
			}
		})
	}
}

// What is no time at all is answered with what to write, too.
func TestASoakInWordsIsToldWhatToWrite(t *testing.T) {
	p := wholeProfile()
	if err := api.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for soak, fits := range map[string]bool{
		"2m": true, "0s": true, "1h30m": true, "1.5s": true, "24h": true,
		"two minutes": false, "2": false, "2 m": false, "": false, "1d": false, "-1s": false, "24h1s": false,
	} {
		t.Run(soak, func(t *testing.T) {
			patch := fmt.Sprintf(`{"spec":{"rollout":{"soak":%q}}}`, soak)
			err := api.Patch(t.Context(), p.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
			if fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "write a time between 0s and 24h, such as 90s, 2m or 1h30m") {
				t.Errorf("a soak of %q: %v", soak, err)
			}
		})
	}
}

// A status without a spec's change is ours alone, and begins empty.
func TestProfileStatusIsASubresource(t *testing.T) {
	p := wholeProfile()
	p.Status.Revision = "forged"
	if err := api.Create(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.Status.Revision != "" {
		t.Error("a status came in with the spec")
	}
	p.Status = infrav1.MacNodeProfileStatus{Revision: "r", Machines: 3}
	if err := api.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p.Status.Machines != 3 || p.Generation != 1 {
		t.Errorf("status = %+v at generation %d", p.Status, p.Generation)
	}
}
