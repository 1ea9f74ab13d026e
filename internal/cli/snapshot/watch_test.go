package snapshot_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// watched is a cluster of one Node that tells when it is watched.
func watched(t *testing.T, refused error) (client.WithWatch, *snapshot.Snapshot, <-chan struct{}) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	watching := make(chan struct{}, 1)
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac"}}).WithInterceptorFuncs(interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			if refused != nil {
				return nil, refused
			}
			w, err := c.Watch(ctx, list, options...)
			watching <- struct{}{}
			return w, err
		},
	}).Build()
	s, err := snapshot.Load(t.Context(), c, "", snapshot.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	return c, s, watching
}

func TestAChangeIsAwaited(t *testing.T) {
	c, s, watching := watched(t, nil)
	ended := make(chan error, 1)
	go func() { ended <- s.AwaitChange(t.Context(), c, "", snapshot.Nodes, snapshot.Pods) }()
	<-watching
	select {
	case err := <-ended:
		t.Fatalf("ended without a change: %v", err)
	default:
	}
	if err := c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What cannot be watched is read anew, and a person ends it.
func TestAwaitingEnds(t *testing.T) {
	c, s, _ := watched(t, errors.New("gone"))
	if err := s.AwaitChange(t.Context(), c, "", snapshot.Nodes); err != nil {
		t.Errorf("a watch that is refused: %v", err)
	}
	c, s, _ = watched(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.AwaitChange(ctx, c, "", snapshot.Nodes); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by hand: %v", err)
	}
}
