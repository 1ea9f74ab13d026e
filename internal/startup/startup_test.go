package startup

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestAgesOfCRDs(t *testing.T) {
	of := func(version, digest string) map[string]string {
		return map[string]string{VersionAnnotation: version, DigestAnnotation: digest}
	}
	own := of("v0.2.0", "b")
	for name, c := range map[string]struct {
		stored map[string]string
		want   age
	}{
		"this build's":                 {of("v0.2.0", "b"), same},
		"unchanged since":              {of("v0.1.0", "b"), same},
		"an older release's":           {of("v0.1.9", "a"), older},
		"a candidate's":                {of("v0.2.0-rc.1", "a"), older},
		"a newer release's":            {of("v0.10.0", "c"), newer},
		"another build of the release": {of("v0.2.0", "c"), another},
		"the first system's":           {map[string]string{"controller-gen.kubebuilder.io/version": "v0.16.0"}, foreign},
		"of a version that is none":    {of("latest", "b"), foreign},
		"without annotations":          {map[string]string{}, foreign},
	} {
		if got := ageOf(c.stored, own); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestALeaseThatIsRenewedIsHeld(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	lease := func(holder *string, renewed time.Duration) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-renewed))),
		}}
	}
	for name, c := range map[string]struct {
		lease *coordinationv1.Lease
		want  bool
	}{
		"renewed":                 {lease(ptr.To("a"), time.Second), true},
		"renewed by a fast clock": {lease(ptr.To("a"), -20*time.Second), true},
		"perhaps run out":         {lease(ptr.To("a"), 40*time.Second), true},
		"run out":                 {lease(ptr.To("a"), time.Minute), false},
		"given back":              {lease(ptr.To(""), time.Second), false},
		"never held":              {lease(nil, time.Second), false},
		"never renewed":           {&coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a")}}, false},
	} {
		if got := renewed(c.lease, now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTheFirstSystemsDeploymentIsKnownByItsImage(t *testing.T) {
	deployment := func(replicas *int32, image string) *appsv1.Deployment {
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: replicas}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "ghcr.io/example/sidecar:v1"}, {Image: image}}
		return d
	}
	const image = "ghcr.io/tuist/cluster-api-provider-scaleway-applesilicon:0.8.0"
	for name, c := range map[string]struct {
		deployment *appsv1.Deployment
		want       bool
	}{
		"its image":                 {deployment(ptr.To[int32](2), image), true},
		"of one replica by default": {deployment(nil, image), true},
		"its later name":            {deployment(nil, "registry.example:5000/cluster-api-provider-tuist@sha256:ab"), true},
		"without a registry":        {deployment(nil, "cluster-api-provider-tuist"), true},
		"scaled to 0":               {deployment(ptr.To[int32](0), image), false},
		"another provider":          {deployment(nil, "registry.k8s.io/cluster-api-scaleway/cluster-api-provider-scaleway:v0.1.0"), false},
		"our own":                   {deployment(nil, "ghcr.io/macfleet/manager:v0.1.0"), false},
	} {
		if got := firstSystems(c.deployment); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
