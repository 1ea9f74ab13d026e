package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/macfleet/macfleet/internal/clienttest"
)

func info(server string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": fmt.Sprintf(`{"kind":"Config","apiVersion":"v1","clusters":[{"name":"","cluster":{"server":%q,"certificate-authority-data":"Y2E="}}]}`, server)},
	}
}

func TestEndpoint(t *testing.T) {
	garbage := info("x")
	garbage.Data["kubeconfig"] = ":"
	noCA := info("x")
	noCA.Data["kubeconfig"] = `{"kind":"Config","apiVersion":"v1","clusters":[{"name":"","cluster":{"server":"https://a"}}]}`
	for name, c := range map[string]struct {
		info      *corev1.ConfigMap
		discovery Discovery
		want      string
		unknown   bool
	}{
		"published":                   {info: info("https://api.example:6443"), want: "https://api.example:6443"},
		"flag wins":                   {info: info("https://api.example:6443"), discovery: Discovery{ServerURL: "https://flag"}, want: "https://flag"},
		"flag with the manager's CA":  {discovery: Discovery{ServerURL: "https://flag", FallbackCA: []byte("ca")}, want: "https://flag"},
		"flag without any CA":         {discovery: Discovery{ServerURL: "https://flag"}, unknown: true},
		"nothing":                     {unknown: true},
		"a Service is never told":     {info: info("https://kubernetes.default.svc"), unknown: true},
		"a Service by its full name":  {info: info("https://kubernetes.default.svc.cluster.local:443"), unknown: true},
		"flag beats a Service's info": {info: info("https://kubernetes.default.svc"), discovery: Discovery{ServerURL: "https://flag", FallbackCA: []byte("ca")}, want: "https://flag"},
		"garbage":                     {info: garbage, unknown: true},
		"no authority":                {info: noCA, unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if c.info != nil {
				builder = builder.WithObjects(c.info)
			}
			c.discovery.Reader = builder.Build()
			got, err := c.discovery.Endpoint(t.Context())
			if _, unknown := errors.AsType[*UnknownEndpointError](err); unknown != c.unknown {
				t.Fatalf("err = %v, want unknown: %t", err, c.unknown)
			}
			if err == nil && (got.Server != c.want || string(got.CA) != "ca") {
				t.Errorf("endpoint = %+v, want %s", got, c.want)
			}
		})
	}
}

func TestForbiddenClusterInfoIsUnknown(t *testing.T) {
	denied := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "cluster-info", nil)
		},
	}).Build()
	if _, err := (Discovery{Reader: denied}).Endpoint(t.Context()); err == nil || !strings.Contains(err.Error(), "may not be read") {
		t.Errorf("err = %v", err)
	}
}

func TestTokens(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	token, err := NewToken(now)
	if err != nil {
		t.Fatal(err)
	}
	if err := CreateToken(t.Context(), c, token, "test"); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: "kube-system", Name: "bootstrap-token-" + token.ID}
	if err := c.Get(t.Context(), key, secret); err != nil {
		t.Fatal(err)
	}
	if got := string(secret.Data["token-id"]) + "." + string(secret.Data["token-secret"]); got != token.Reveal() {
		t.Error("the Secret holds another token")
	}
	if secret.Type != "bootstrap.kubernetes.io/token" || string(secret.Data["auth-extra-groups"]) != JoinGroup || string(secret.Data["expiration"]) != "2026-03-01T13:00:00Z" {
		t.Errorf("type = %s, groups = %s, expiration = %s", secret.Type, secret.Data["auth-extra-groups"], secret.Data["expiration"])
	}
	if secret.Data["usage-bootstrap-signing"] != nil || string(secret.Data["usage-bootstrap-authentication"]) != "true" {
		t.Error("the token may do more than log in")
	}
	if shown := fmt.Sprintf("%v %+v %#v", token, token, token); strings.Contains(shown, string(secret.Data["token-secret"])) {
		t.Errorf("the token prints itself: %s", shown)
	}
	for range 2 { // gone already is fine
		if err := DeleteToken(t.Context(), c, token.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), key, secret); !apierrors.IsNotFound(err) {
		t.Errorf("err = %v, want it gone", err)
	}
}

func pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "mac-1"}}
	if change != nil {
		change(p)
	}
	return p
}

func TestEvict(t *testing.T) {
	var evicted []string
	c := fake.NewClientBuilder().WithObjects(
		pod("build", nil),
		pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "mac-2" }),
		pod("daemon", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "x", UID: "x", Controller: ptr.To(true)}}
		}),
		pod("mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }),
		pod("done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("budget", nil),
		pod("leaving", func(p *corev1.Pod) { p.Finalizers = []string{"test/hold"} }),
	).WithIndex(&corev1.Pod{}, NodeNameField, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, what client.Object, opts ...client.SubResourceCreateOption) error {
				evicted = append(evicted, o.GetName())
				if o.GetName() == "budget" {
					return apierrors.NewTooManyRequests("the budget forbids it", 1)
				}
				return c.SubResource(sub).Create(ctx, o, what, opts...)
			},
		}).Build()
	if err := c.Delete(t.Context(), pod("leaving", nil)); err != nil {
		t.Fatal(err)
	}
	left, err := Drainer{Client: c, Pods: c}.Evict(t.Context(), "mac-1")
	if err != nil || left != 3 {
		t.Errorf("left = %d, err = %v; want 3: one evicted, one leaving, one held by its budget", left, err)
	}
	slices.Sort(evicted)
	if !slices.Equal(evicted, []string{"budget", "build"}) {
		t.Errorf("evicted %q", evicted)
	}
	if left, err = (Drainer{Client: c, Pods: c}).Evict(t.Context(), "mac-1"); err != nil || left != 2 {
		t.Errorf("left = %d, err = %v; want 2", left, err)
	}
}

// TestEvictAtOnce: of a Node whose Mac is gone, what runs goes without a grace period.
func TestEvictAtOnce(t *testing.T) {
	evicted := map[string]int64{}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}}
	c := fake.NewClientBuilder().WithObjects(
		node, pod("build", nil),
		pod("elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "mac-2" }),
		pod("daemon", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "x", UID: "x", Controller: ptr.To(true)}}
		}),
		pod("done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("budget", nil),
		pod("budgets", nil),
		pod("leaving", func(p *corev1.Pod) { p.Finalizers = []string{"test/hold"} }),
	).WithIndex(&corev1.Pod{}, NodeNameField, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: func(_ context.Context, _ client.Client, sub string, o, what client.Object, _ ...client.SubResourceCreateOption) error {
				options := what.(*policyv1.Eviction).DeleteOptions
				if sub != "eviction" || options.Preconditions == nil || *options.Preconditions.UID != o.GetUID() {
					t.Errorf("%s of %s with %+v", sub, o.GetName(), options)
				}
				evicted[o.GetName()] = ptr.Deref(options.GracePeriodSeconds, -1)
				switch o.GetName() {
				case "budget":
					return apierrors.NewTooManyRequests("the budget forbids it", 1)
				case "budgets":
					return apierrors.NewInternalError(errors.New("it has more than one budget"))
				}
				return nil
			},
		}).Build()
	if err := c.Delete(t.Context(), pod("leaving", nil)); err != nil {
		t.Fatal(err)
	}
	err := Drainer{Client: c, Pods: c}.EvictAtOnce(t.Context(), node)
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "/budgets: ") || !node.Spec.Unschedulable {
		t.Errorf("cordoned: %t, err = %v", node.Spec.Unschedulable, err)
	}
	want := map[string]int64{"build": 0, "daemon": 0, "budget": 0, "budgets": 0, "leaving": 0}
	if d := cmp.Diff(want, evicted); d != "" {
		t.Errorf("grace periods (-want +got):\n%s", d)
	}
}

func TestALaterNodeOfTheNameStays(t *testing.T) {
	was, is := &corev1.Node{}, &corev1.Node{}
	was.Name, was.UID, is.Name, is.UID = "mac-1", "was", "mac-1", "is"
	c := clienttest.AsServed(fake.NewClientBuilder().WithObjects(is).Build())
	d := Drainer{Client: c, Pods: c}
	if err := d.DeleteNode(t.Context(), was); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(is), is); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteNode(t.Context(), is); err != nil {
		t.Error(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(is), is); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}

func TestCordonOnce(t *testing.T) {
	writes := 0
	c := fake.NewClientBuilder().WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}}).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			writes++
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	node := &corev1.Node{}
	for range 2 {
		if err := c.Get(t.Context(), client.ObjectKey{Name: "mac-1"}, node); err != nil {
			t.Fatal(err)
		}
		if err := (Drainer{Client: c}).Cordon(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	if !node.Spec.Unschedulable || writes != 1 {
		t.Errorf("unschedulable = %t after %d writes", node.Spec.Unschedulable, writes)
	}
}
