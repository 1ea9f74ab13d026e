package workload

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func authorityPEM(t *testing.T, serial int64) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func authentication(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"},
		Data:       map[string]string{"client-ca-file": text, "requestheader-client-ca-file": "another's"},
	}
}

func TestClientCA(t *testing.T) {
	first, second := authorityPEM(t, 1), authorityPEM(t, 2)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "extension-apiserver-authentication", errors.New("no"))
	for name, c := range map[string]struct {
		published *corev1.ConfigMap
		fails     error
		want      string
		err       bool
	}{
		"one":                 {published: authentication(first), want: first},
		"two":                 {published: authentication(first + second), want: first + second},
		"with text around it": {published: authentication("# ours\n" + first + "\n# end"), want: first},
		"none":                {published: authentication("")},
		"garbage":             {published: authentication("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")},
		"no ConfigMap":        {},
		"may not be read":     {fails: forbidden, err: true},
		"cannot be read":      {fails: errors.New("away"), err: true},
	} {
		t.Run(name, func(t *testing.T) {
			build := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if c.fails != nil {
						return c.fails
					}
					return inner.Get(ctx, key, o, opts...)
				},
			})
			if c.published != nil {
				build = build.WithObjects(c.published)
			}
			got, err := NewClientCA(build.Build()).PEM(t.Context())
			if (err != nil) != c.err || string(got) != c.want {
				t.Errorf("got %q (%v), want %q", got, err, c.want)
			}
		})
	}
}

// What is published anew reaches Macs by a rollout, so that whoever rolls out must hear
// of it, once. That it cannot be read, or was taken away, changes no fleet.
func TestClientCAChanges(t *testing.T) {
	first, second := authorityPEM(t, 1), authorityPEM(t, 2)
	published := authentication(first)
	var fails error
	reader := fake.NewClientBuilder().WithObjects(published).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if fails != nil {
				return fails
			}
			return inner.Get(ctx, key, o, opts...)
		},
	}).Build()
	c := NewClientCA(reader)
	expect := func(step, want string, heard bool) {
		t.Helper()
		got, err := c.PEM(t.Context())
		if err != nil || string(got) != want {
			t.Errorf("%s: got %.60q (%v), want %.60q", step, got, err, want)
		}
		select {
		case <-c.Changed():
			if !heard {
				t.Errorf("%s: told, and nothing changed", step)
			}
		default:
			if heard {
				t.Errorf("%s: nobody is told", step)
			}
		}
	}
	publish := func(text string) {
		t.Helper()
		published.Data["client-ca-file"] = text
		if err := reader.Update(t.Context(), published); err != nil {
			t.Fatal(err)
		}
	}
	expect("at first", first, false)
	c.refresh(t.Context())
	expect("unchanged", first, false)
	fails = errors.New("away")
	c.refresh(t.Context())
	expect("cannot be read", first, false)
	fails = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no"))
	c.refresh(t.Context())
	expect("may not be read any more", first, false)
	fails = nil
	publish(first + second)
	expect("before it is read", first, false)
	c.refresh(t.Context())
	expect("replaced", first+second, true)
	publish("")
	c.refresh(t.Context())
	expect("taken back", first+second, false)
}

// A right that comes a moment after the manager tells no fleet of two authorities.
func TestClientCAIsAskedForUntilItMayBeRead(t *testing.T) {
	first := authorityPEM(t, 1)
	var fails error = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "x", errors.New("no"))
	c := NewClientCA(fake.NewClientBuilder().WithObjects(authentication(first)).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if fails != nil {
				return fails
			}
			return inner.Get(ctx, key, o, opts...)
		},
	}).Build())
	if got, err := c.PEM(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("got %.60q (%v)", got, err)
	}
	fails = nil
	if got, err := c.PEM(t.Context()); err != nil || string(got) != first {
		t.Errorf("got %.60q (%v)", got, err)
	}
}

func TestClientCAIsReadAgain(t *testing.T) {
	first, second := authorityPEM(t, 1), authorityPEM(t, 2)
	published := authentication(first)
	reader := fake.NewClientBuilder().WithObjects(published).Build()
	c, tick := NewClientCA(reader), make(chan time.Time)
	c.Tick = tick
	if _, err := c.PEM(t.Context()); err != nil {
		t.Fatal(err)
	}
	published.Data["client-ca-file"] = second
	if err := reader.Update(t.Context(), published); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	tick <- time.Time{}
	<-c.Changed()
	if got, err := c.PEM(t.Context()); err != nil || string(got) != second {
		t.Errorf("got %.60q (%v)", got, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
