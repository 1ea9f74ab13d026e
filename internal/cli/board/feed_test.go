package board

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// A right that is taken away later makes what is shown old; one that never was there is
// said to be missing.
func TestRightsThatAreTakenAway(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	taken := false
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			_, pods := list.(*corev1.PodList)
			if _, hosts := list.(*infrav1.ScalewayAppleSiliconHostList); pods || hosts && taken {
				return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
			}
			return c.List(ctx, list, options...)
		},
	}).WithIndex(&coordinationv1.Lease{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).Build()
	feed, err := NewFeed(t.Context(), c, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(feed.missing) != 1 || feed.missing[0].Kind != snapshot.Pods {
		t.Errorf("missing is %v", feed.missing)
	}
	if err := feed.Trouble(t.Context()); err != nil {
		t.Errorf("with the rights that it had: %v", err)
	}
	taken = true
	if err := feed.Trouble(t.Context()); err == nil || !strings.Contains(err.Error(), "scalewayapplesiliconhosts: you may not list them") {
		t.Errorf("without a right that it had: %v", err)
	}
}

func TestTheUsualPortIsLeftOut(t *testing.T) {
	server, err := NewServer(t.Context(), &fakeSource{now: busy()})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"127.0.0.1": http.StatusOK, "127.0.0.1:80": http.StatusOK, "evil.example": http.StatusMisdirectedRequest} {
		request := httptest.NewRequest(http.MethodGet, "/"+server.secret+"/", nil)
		request.Host = host
		answer := httptest.NewRecorder()
		server.handler("127.0.0.1:80").ServeHTTP(answer, request)
		if answer.Code != want {
			t.Errorf("%s gets %d, want %d", host, answer.Code, want)
		}
	}
}
