package controlplane

import (
	"context"
	"fmt"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/workload"
)

type gitVersion string

func (v gitVersion) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: string(v)}, nil
}

// world is an API server that gives tokens and counts writes.
type world struct {
	t       *testing.T
	client  client.WithWatch
	clock   *clocktesting.FakePassiveClock
	tokens  int
	writes  int
	refuses bool
	dead    string // a token that the API server takes no more
}

func key() client.ObjectKey { return client.ObjectKey{Namespace: "fleet", Name: "macs"} }

func plane() *controlplanev1.ExternalControlPlane {
	return &controlplanev1.ExternalControlPlane{ObjectMeta: metav1.ObjectMeta{
		Namespace: "fleet", Name: "macs", UID: "ecp",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "macs", UID: "c"}},
	}}
}

func clusterInfo() *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"","cluster":{"server":"https://api.example","certificate-authority-data":"Y2E="}}]}`},
	}
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	objects = append(objects,
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs", UID: "c"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "this"}})
	w.client = clienttest.AsServed(clienttest.NewBuilder(scheme).WithObjects(objects...).
		WithStatusSubresource(&controlplanev1.ExternalControlPlane{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourceCreate: w.giveToken,
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				w.writes++
				return c.Patch(ctx, o, p, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if review, is := o.(*authenticationv1.TokenReview); is {
					w.review(review)
					return nil
				}
				w.writes++
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				w.writes++
				return c.Update(ctx, o, opts...)
			},
		}).Build())
	return w
}

func (w *world) giveToken(_ context.Context, _ client.Client, sub string, o, request client.Object, _ ...client.SubResourceCreateOption) error {
	asked, is := request.(*authenticationv1.TokenRequest)
	if !is || sub != "token" || o.GetName() != serviceAccount || o.GetNamespace() != "macfleet-system" {
		w.t.Errorf("unexpected %s of %s/%s", sub, o.GetNamespace(), o.GetName())
	}
	if w.refuses {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccounts"}, o.GetName())
	}
	w.tokens++
	lifetime := time.Duration(*asked.Spec.ExpirationSeconds) * time.Second
	asked.Status = authenticationv1.TokenRequestStatus{Token: fmt.Sprint("token-", w.tokens), ExpirationTimestamp: metav1.NewTime(w.clock.Now().Add(lifetime))}
	return nil
}

func (w *world) review(r *authenticationv1.TokenReview) {
	r.Status.Authenticated = r.Spec.Token != "" && r.Spec.Token != w.dead
	if r.Status.Authenticated {
		r.Status.User.Username = "system:serviceaccount:macfleet-system:" + serviceAccount
	}
}

func (w *world) reconcile() (*controlplanev1.ExternalControlPlane, ctrl.Result) {
	w.t.Helper()
	r := &Reconciler{
		Client: w.client, Reader: w.client, Version: gitVersion("v1.36.4"), Clock: w.clock, Namespace: "macfleet-system",
		Server: Server{URL: "https://10.0.0.1", CA: []byte("server-ca")}, Discovery: workload.Discovery{Reader: w.client},
	}
	var result ctrl.Result
	for range 2 { // the first pass may only set Paused
		var err error
		if result, err = r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key()}); err != nil {
			w.t.Fatal(err)
		}
	}
	got := &controlplanev1.ExternalControlPlane{}
	if err := w.client.Get(w.t.Context(), key(), got); err != nil {
		w.t.Fatal(err)
	}
	return got, result
}

func (w *world) secret() *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{}
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "fleet", Name: "macs-kubeconfig"}, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret
}

func TestContract_ControlPlaneSaysWhatItIs(t *testing.T) {
	got, _ := newWorld(t, plane(), clusterInfo()).reconcile()
	if !ptr.Deref(got.Status.Initialization.ControlPlaneInitialized, false) || !ptr.Deref(got.Status.ExternalManagedControlPlane, false) || got.Status.Version != "v1.36.4" {
		t.Errorf("status = %+v", got.Status)
	}
	if got.Spec.ClusterID != "this" || !conditions.IsTrue(got, controlplanev1.ReadyCondition) {
		t.Errorf("spec = %+v, conditions = %+v", got.Spec, got.Status.Conditions)
	}
}

func TestContract_ControlPlaneEndpointIsClusterInfos(t *testing.T) {
	got, _ := newWorld(t, plane(), clusterInfo()).reconcile()
	if want := (clusterv1.APIEndpoint{Host: "api.example", Port: 443}); got.Spec.ControlPlaneEndpoint != want {
		t.Errorf("spec.controlPlaneEndpoint = %+v, want %+v", got.Spec.ControlPlaneEndpoint, want)
	}
}

func TestContract_KubeconfigSecret(t *testing.T) {
	w := newWorld(t, plane(), clusterInfo())
	got, _ := w.reconcile()
	secret := w.secret()
	if secret.Type != clusterv1.ClusterSecretType || secret.Labels[clusterv1.ClusterNameLabel] != "macs" || !metav1.IsControlledBy(secret, got) {
		t.Errorf("Secret = %+v", secret.ObjectMeta)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://10.0.0.1" || config.BearerToken != "token-1" || string(config.CAData) != "server-ca" {
		t.Errorf("kubeconfig leads to %s", config.Host)
	}
}

func TestTheTokenIsRenewedInTime(t *testing.T) {
	w := newWorld(t, plane(), clusterInfo())
	w.reconcile()
	w.clock.SetTime(w.clock.Now().Add(tokenLifetime - renewBefore - time.Second))
	w.reconcile()
	if w.tokens != 1 {
		t.Fatalf("%d tokens while the first one is good", w.tokens)
	}
	w.clock.SetTime(w.clock.Now().Add(time.Second))
	got, result := w.reconcile()
	if w.tokens != 2 || !got.Status.TokenExpiresAt.Time.Equal(w.clock.Now().Add(tokenLifetime)) {
		t.Errorf("%d tokens, expiry = %s", w.tokens, got.Status.TokenExpiresAt)
	}
	if result.RequeueAfter == 0 || result.RequeueAfter > renewBefore {
		t.Errorf("looks again after %s", result.RequeueAfter)
	}
}

func TestATokenThatEndedWithItsServiceAccountIsMintedAgain(t *testing.T) {
	w := newWorld(t, plane(), clusterInfo())
	w.reconcile()
	w.dead = "token-1"
	w.reconcile()
	config, err := clientcmd.RESTConfigFromKubeConfig(w.secret().Data["value"])
	if err != nil || config.BearerToken != "token-2" || w.tokens != 2 {
		t.Errorf("the kubeconfig has %s of %d tokens (%v)", config.BearerToken, w.tokens, err)
	}
}

func TestASpoiltKubeconfigIsMintedAgain(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Secret){
		"other server": func(s *corev1.Secret) {
			s.Data["value"] = []byte(`{"clusters":[{"name":"x","cluster":{"server":"https://other"}}]}`)
		},
		"garbage":   func(s *corev1.Secret) { s.Data["value"] = []byte(":") },
		"no expiry": func(s *corev1.Secret) { s.Annotations = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plane(), clusterInfo())
			w.reconcile()
			secret := w.secret()
			spoil(secret)
			if err := w.client.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			w.reconcile()
			if w.tokens != 2 {
				t.Errorf("%d tokens", w.tokens)
			}
		})
	}
}

func TestForeignSecretIsRespected(t *testing.T) {
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs-kubeconfig"}, Data: map[string][]byte{"value": []byte("theirs")}}
	w := newWorld(t, plane(), clusterInfo(), foreign)
	got, _ := w.reconcile()
	if w.tokens != 0 || string(w.secret().Data["value"]) != "theirs" {
		t.Error("somebody else's Secret was overwritten")
	}
	if conditions.GetReason(got, controlplanev1.KubeconfigAvailableCondition) != controlplanev1.ReasonForeignSecret || !conditions.IsTrue(got, controlplanev1.ReadyCondition) {
		t.Errorf("conditions = %+v", got.Status.Conditions)
	}
}

// A restore may leave owners out: what was minted is renewed all the same, and goes with its plane.
func TestAMintedKubeconfigThatLostItsOwnerGetsItBack(t *testing.T) {
	for name, spoil := range map[string]func(*corev1.Secret){
		"no owner":        func(s *corev1.Secret) { s.OwnerReferences = nil },
		"another version": func(s *corev1.Secret) { s.OwnerReferences[0].APIVersion = controlplanev1.GroupVersion.Group + "/v0" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plane(), clusterInfo())
			w.reconcile()
			secret := w.secret()
			was := secret.OwnerReferences[0]
			spoil(secret)
			if err := w.client.Update(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			got, _ := w.reconcile()
			if owners := w.secret().OwnerReferences; len(owners) != 1 || owners[0].UID != was.UID || owners[0].APIVersion != was.APIVersion {
				t.Errorf("owners = %+v, want %+v", owners, was)
			}
			if reason := conditions.GetReason(got, controlplanev1.KubeconfigAvailableCondition); reason != "Minted" || w.tokens != 1 {
				t.Errorf("KubeconfigAvailable: %s, %d tokens", reason, w.tokens)
			}
		})
	}
}

// One that others control is theirs, whatever it was before.
func TestAKubeconfigThatOthersControlIsTheirs(t *testing.T) {
	w := newWorld(t, plane(), clusterInfo())
	w.reconcile()
	secret := w.secret()
	secret.OwnerReferences = []metav1.OwnerReference{{APIVersion: "external-secrets.io/v1", Kind: "ExternalSecret", Name: "macs", UID: "es", Controller: ptr.To(true)}}
	if err := w.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	got, _ := w.reconcile()
	if reason := conditions.GetReason(got, controlplanev1.KubeconfigAvailableCondition); reason != controlplanev1.ReasonForeignSecret || w.secret().OwnerReferences[0].UID != "es" {
		t.Errorf("KubeconfigAvailable: %s, owners %+v", reason, w.secret().OwnerReferences)
	}
}

func provided() *controlplanev1.ExternalControlPlane {
	asked := plane()
	asked.Spec.Kubeconfig = controlplanev1.KubeconfigProvided
	return asked
}

// While the store has not been read yet, a kubeconfig of ours would be in its way.
func TestRequirement004_AProvidedKubeconfigIsWaitedFor(t *testing.T) {
	w := newWorld(t, provided(), clusterInfo())
	got, result := w.reconcile()
	if w.tokens != 0 || result.RequeueAfter != tryAgain {
		t.Errorf("%d tokens, looks again after %s", w.tokens, result.RequeueAfter)
	}
	if reason := conditions.GetReason(got, controlplanev1.ReadyCondition); reason != controlplanev1.ReasonKubeconfigMissing || ptr.Deref(got.Status.Initialization.ControlPlaneInitialized, false) {
		t.Errorf("Ready = %s, initialized = %v", reason, got.Status.Initialization.ControlPlaneInitialized)
	}
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs-kubeconfig"}, Data: map[string][]byte{"value": []byte("theirs")}}
	if err := w.client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	got, _ = w.reconcile()
	if !conditions.IsTrue(got, controlplanev1.ReadyCondition) || !ptr.Deref(got.Status.Initialization.ControlPlaneInitialized, false) {
		t.Errorf("conditions = %+v", got.Status.Conditions)
	}
	if w.tokens != 0 || string(w.secret().Data["value"]) != "theirs" {
		t.Error("the provided kubeconfig was overwritten")
	}
}

func TestRequirement004_AMintedKubeconfigIsLetGoOfForAProvidedOne(t *testing.T) {
	w := newWorld(t, plane(), clusterInfo())
	got, _ := w.reconcile()
	got.Spec.Kubeconfig = controlplanev1.KubeconfigProvided
	if err := w.client.Update(t.Context(), got); err != nil {
		t.Fatal(err)
	}
	w.clock.SetTime(w.clock.Now().Add(tokenLifetime)) // a minted one would be renewed now
	got, _ = w.reconcile()
	secret := w.secret()
	if len(secret.OwnerReferences) != 0 || secret.Annotations[expiryAnnotation] != "" || len(secret.Data["value"]) == 0 || w.tokens != 1 {
		t.Errorf("Secret = %+v, %d tokens", secret.ObjectMeta, w.tokens)
	}
	if got.Status.TokenExpiresAt != nil || conditions.GetReason(got, controlplanev1.KubeconfigAvailableCondition) != controlplanev1.ReasonForeignSecret {
		t.Errorf("status = %+v", got.Status)
	}
	w.writes = 0
	if w.reconcile(); w.writes != 0 {
		t.Errorf("%d writes when nothing is new", w.writes)
	}
}

// A move drops the status. The Cluster must say again that its control plane was initialized:
// clusterctl refuses to move it on, or back, until then.
func TestABroughtKubeconfigShowsAnInitializedControlPlane(t *testing.T) {
	moved := plane()
	moved.Spec.ClusterID = "another"
	brought := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs-kubeconfig"}, Data: map[string][]byte{"value": []byte("of the other cluster")}}
	w := newWorld(t, moved, clusterInfo(), brought)
	got, _ := w.reconcile()
	if !ptr.Deref(got.Status.Initialization.ControlPlaneInitialized, false) {
		t.Errorf("status = %+v", got.Status)
	}
	if reason := conditions.GetReason(got, controlplanev1.ReadyCondition); reason != controlplanev1.ReasonDifferentCluster || conditions.IsTrue(got, controlplanev1.ReadyCondition) || w.tokens != 0 {
		t.Errorf("Ready = %s, %d tokens", reason, w.tokens)
	}
}

func TestNotReady(t *testing.T) {
	moved := plane()
	moved.Spec.ClusterID = "another"
	for name, c := range map[string]struct {
		objects []client.Object
		refuses bool
		reason  string
		init    bool
		tokens  int
	}{
		"another cluster":   {[]client.Object{moved, clusterInfo()}, false, controlplanev1.ReasonDifferentCluster, false, 0},
		"no ServiceAccount": {[]client.Object{plane(), clusterInfo()}, true, controlplanev1.ReasonTokenRefused, false, 0},
		"no address":        {[]client.Object{plane()}, false, controlplanev1.ReasonEndpointUnknown, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.objects...)
			w.refuses = c.refuses
			got, result := w.reconcile()
			if reason := conditions.GetReason(got, controlplanev1.ReadyCondition); reason != c.reason || conditions.IsTrue(got, controlplanev1.ReadyCondition) {
				t.Errorf("Ready = %s, want %s", reason, c.reason)
			}
			if ptr.Deref(got.Status.Initialization.ControlPlaneInitialized, false) != c.init || w.tokens != c.tokens {
				t.Errorf("initialized = %v, tokens = %d", got.Status.Initialization.ControlPlaneInitialized, w.tokens)
			}
			if result.RequeueAfter == 0 {
				t.Error("it would never look again")
			}
		})
	}
}

func TestNothingNewWritesNothing(t *testing.T) {
	w := newWorld(t, plane(), clusterInfo())
	w.reconcile()
	w.writes = 0
	w.reconcile()
	if w.writes != 0 {
		t.Errorf("%d writes", w.writes)
	}
}

func TestParseEndpoint(t *testing.T) {
	for server, want := range map[string]clusterv1.APIEndpoint{
		"https://api.example":      {Host: "api.example", Port: 443},
		"https://10.1.2.3:6443":    {Host: "10.1.2.3", Port: 6443},
		"https://[fd00::1]:8443/x": {Host: "fd00::1", Port: 8443},
	} {
		if got, err := parseEndpoint(server); err != nil || got != want {
			t.Errorf("parseEndpoint(%s) = %v, %v", server, got, err)
		}
	}
	for _, server := range []string{"", "api.example:6443", "https://"} {
		if got, err := parseEndpoint(server); err == nil {
			t.Errorf("parseEndpoint(%q) = %v", server, got)
		}
	}
}
