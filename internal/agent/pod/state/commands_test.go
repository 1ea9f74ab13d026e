package state

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestWhoNeedsTheGuestAgent(t *testing.T) {
	token := corev1.VolumeMount{Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}
	own := corev1.VolumeMount{Name: "cache", MountPath: "/opt/cache"}
	for name, c := range map[string]struct {
		mounts []corev1.VolumeMount
		want   string
	}{
		"the token alone": {[]corev1.VolumeMount{token}, "the command of container vm"},
		"a volume":        {[]corev1.VolumeMount{token, own}, "its volumes"},
	} {
		p := podtest.Job(corev1.RestartPolicyNever)
		p.Spec.Containers[0].VolumeMounts = c.mounts
		if got := GuestAgentNeed(p, SetupID); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
