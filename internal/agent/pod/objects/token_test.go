package objects

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
)

// issuer gives numbered tokens and remembers what was asked of it.
type issuer struct {
	asked   []authenticationv1.TokenRequestSpec
	account string
	shorten int64
	down    error
	// refuse, when set, is asked before each token.
	refuse func() error
}

func (i *issuer) serve(a clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := a.(clienttesting.CreateActionImpl)
	if !ok || create.GetSubresource() != "token" {
		return false, nil, nil
	}
	if i.down != nil {
		return true, nil, i.down
	}
	if i.refuse != nil {
		if err := i.refuse(); err != nil {
			return true, nil, err
		}
	}
	r := create.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
	i.account = create.GetNamespace() + "/" + create.Name
	i.asked = append(i.asked, *r.Spec.DeepCopy())
	if i.shorten != 0 {
		r.Spec.ExpirationSeconds = &i.shorten
	}
	r.Status.Token = fmt.Sprintf("token-%d", len(i.asked))
	return true, r, nil
}

func tokenStore(t *testing.T) (*Store, *issuer, *testingclock.FakeClock) {
	t.Helper()
	client, i := fake.NewClientset(), &issuer{}
	client.PrependReactor("create", "serviceaccounts", i.serve)
	clock := testingclock.NewFakeClock(time.Unix(1e9, 0))
	s := New(kubetest.Client(client), clock, nil)
	t.Cleanup(s.Close)
	s.Hold("u-1", nil)
	return s, i, clock
}

func tokenPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "build", Name: "p", UID: "u-1"},
		Spec:       corev1.PodSpec{ServiceAccountName: "robot"},
	}
}

func TestTokenIsBoundAndKept(t *testing.T) {
	s, i, clock := tokenStore(t)
	value, refresh, err := s.Token(t.Context(), tokenPod(), TokenRequest{Audience: "vault", Seconds: 1000})
	if err != nil || value != "token-1" || i.account != "build/robot" {
		t.Fatalf("%q for %s, %v", value, i.account, err)
	}
	seconds := int64(1000)
	want := authenticationv1.TokenRequestSpec{
		Audiences: []string{"vault"}, ExpirationSeconds: &seconds,
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: types.UID("u-1")},
	}
	if d := cmp.Diff(want, i.asked[0]); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	if used := refresh.Sub(clock.Now()); used > 800*time.Second || used < 790*time.Second {
		t.Errorf("refreshed after %s of 1000 s", used)
	}
	clock.SetTime(refresh.Add(-time.Second))
	if value, _, _ = s.Token(t.Context(), tokenPod(), TokenRequest{Audience: "vault", Seconds: 1000}); value != "token-1" {
		t.Errorf("a good token was replaced by %q", value)
	}
	if value, _, _ = s.Token(t.Context(), tokenPod(), TokenRequest{Seconds: 1000}); value != "token-2" || i.asked[1].Audiences != nil {
		t.Errorf("another audience has %q for %v", value, i.asked[1].Audiences)
	}
	clock.SetTime(refresh)
	if value, _, _ = s.Token(t.Context(), tokenPod(), TokenRequest{Audience: "vault", Seconds: 1000}); value != "token-3" {
		t.Errorf("a token at 80 %% of its life is %q", value)
	}
	s.Drop("u-1")
	if len(s.tokens.cached) != 0 {
		t.Error("tokens outlive their Pod")
	}
	// One that was asked for before, and is answered after.
	if _, _, err := s.Token(t.Context(), tokenPod(), TokenRequest{Seconds: 1000}); err != nil || len(s.tokens.cached) != 0 {
		t.Errorf("a token is kept for a Pod that is gone: %v", err)
	}
}

func TestTokenOfLongLifeIsRefreshedDaily(t *testing.T) {
	s, i, clock := tokenStore(t)
	i.shorten = int64((72 * time.Hour).Seconds())
	_, refresh, err := s.Token(t.Context(), tokenPod(), TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if used := refresh.Sub(clock.Now()); used > 24*time.Hour || used < 24*time.Hour-tokenJitter {
		t.Errorf("refreshed after %s", used)
	}
	if *i.asked[0].ExpirationSeconds != 3600 {
		t.Errorf("asked for %d s by default", *i.asked[0].ExpirationSeconds)
	}
}

func TestTokenOutlivesAnAPIServerThatIsAway(t *testing.T) {
	s, i, clock := tokenStore(t)
	_, refresh, err := s.Token(t.Context(), tokenPod(), TokenRequest{Seconds: 1000})
	if err != nil {
		t.Fatal(err)
	}
	i.down = errors.New("connection refused")
	clock.SetTime(refresh)
	value, again, err := s.Token(t.Context(), tokenPod(), TokenRequest{Seconds: 1000})
	if err != nil || value != "token-1" || !again.Equal(clock.Now().Add(tokenRetry)) {
		t.Errorf("%q until %s, %v", value, again, err)
	}
	clock.Step(300 * time.Second)
	if value, _, err = s.Token(t.Context(), tokenPod(), TokenRequest{Seconds: 1000}); !errors.Is(err, i.down) {
		t.Errorf("an expired token is given as %q, %v", value, err)
	}
}

// The authorizer of the API server may learn of a Pod's node after the node does.
func TestTokenOfAPodThatWasJustScheduled(t *testing.T) {
	for name, c := range map[string]struct {
		refused, asked int
		err            error
	}{
		"known in a moment": {refused: 3, asked: 4},
		"never known":       {refused: 99, asked: refusedTries, err: errForbidden},
	} {
		s, i, clock := tokenStore(t)
		asked := 0
		i.refuse = func() error {
			if asked++; asked <= c.refused {
				return errForbidden
			}
			return nil
		}
		begin, done := clock.Now(), make(chan struct{})
		go func() {
			defer close(done)
			if _, _, err := s.Token(t.Context(), tokenPod(), TokenRequest{}); !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
		}()
		for waits := true; waits; {
			select {
			case <-done:
				waits = false
			case <-time.After(time.Millisecond):
				if clock.HasWaiters() {
					clock.Step(refusedPause)
				}
			}
		}
		if took := clock.Since(begin); asked != c.asked || took > 3*time.Second {
			t.Errorf("%s: asked %d times within %s", name, asked, took)
		}
	}
}

var errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "robot", errors.New("a pod of another node"))

func TestRefs(t *testing.T) {
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	container := corev1.Container{
		EnvFrom: []corev1.EnvFromSource{
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("all-s")}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("all-m")}},
		},
		Env: []corev1.EnvVar{
			{Name: "plain"},
			{Name: "S", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("key-s")}}},
			{Name: "M", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("key-m")}}},
		},
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "build"}, Spec: corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{ref("pull"), {}},
		InitContainers:   []corev1.Container{container}, Containers: []corev1.Container{container},
		Volumes: []corev1.Volume{
			{Name: "e", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "vol-s"}}},
			{Name: "m", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: ref("vol-m")}}},
			{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: ref("proj-s")}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: ref("proj-m")}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}},
			}}}},
		},
	}}
	var got []string
	for _, r := range Refs(p) {
		got = append(got, r.String())
	}
	want := []string{
		"ConfigMap build/all-m", "ConfigMap build/key-m", "ConfigMap build/proj-m", "ConfigMap build/vol-m",
		"Secret build/all-s", "Secret build/key-s", "Secret build/proj-s", "Secret build/pull", "Secret build/vol-s",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
