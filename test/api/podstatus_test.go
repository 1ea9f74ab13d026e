package api

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/pod/admissiontest"
	"github.com/macfleet/macfleet/internal/agent/pod/status"
)

// TestAPodThatIsGoneHasNoStatus: the agent knows from the API server's own words that nobody is
// there to have a status any more, or to be deleted.
func TestAPodThatIsGoneHasNoStatus(t *testing.T) {
	kinds, err := kube.NewKinds()
	must(t, err)
	pods, err := kinds.Client(apiConfig)
	must(t, err)
	p := admissiontest.New()
	must(t, api.Create(t.Context(), p))
	for name, change := range map[string]func(*corev1.Pod){
		"it is deleted":             func(p *corev1.Pod) { p.Name = "gone" },
		"another Pod has its name":  func(p *corev1.Pod) { p.UID = "another" },
		"it is another's, and gone": func(p *corev1.Pod) { p.Name, p.UID = "gone", "another" },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			was := p.DeepCopy()
			change(was)
			w := status.New(pods, clock.RealClock{}, slog.New(slog.DiscardHandler), was)
			go w.Run(ctx)
			w.Set(corev1.PodStatus{Phase: corev1.PodRunning})
			must(t, w.Flush(ctx))
			uid := was.UID
			err := pods.Pods(was.Namespace).Delete(ctx, was.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if !status.IsGone(err, was.Name) {
				t.Errorf("deleted with %v", err)
			}
		})
	}
	// A conflict of another kind is none of these.
	_, err = pods.Pods(p.Namespace).Patch(t.Context(), p.Name, types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"1"}}`), metav1.PatchOptions{})
	if err == nil || status.IsGone(err, p.Name) {
		t.Errorf("a version of long ago: %v", err)
	}
}
