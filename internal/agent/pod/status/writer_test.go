package status

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kubetest"
	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestTheWriterNeverGoesBack(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyAlways)
	p.Status.Phase = corev1.PodRunning
	client := fake.NewClientset(p)
	w := New(kubetest.Client(client), clock.RealClock{}, slog.New(slog.DiscardHandler), p)
	w.Set(corev1.PodStatus{Phase: corev1.PodPending})
	if w.want.Phase != corev1.PodRunning {
		t.Errorf("phase %s is to be written over Running", w.want.Phase)
	}
}

// The API server refuses a status with the UID of a Pod whose name is another's by
// now. There is nothing to write any more, and nobody waits for it.
func TestNothingIsWrittenForAPodWhoseNameIsAnothers(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyNever)
	client := fake.NewClientset(p)
	tries := atomic.Int32{}
	client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		tries.Add(1)
		return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "a", errors.New("Precondition failed: UID in precondition: uid-a, UID in object meta: uid-b"))
	})
	w := New(kubetest.Client(client), clock.RealClock{}, slog.New(slog.DiscardHandler), p)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(t.Context())
	}()
	w.Set(corev1.PodStatus{Phase: corev1.PodRunning})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := w.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	<-ended
	if n := tries.Load(); n != 1 {
		t.Errorf("the API server was asked %d times", n)
	}
}

// The API server takes one address of a family: that of before must not stay beside the new one.
func TestAnotherAddressOfTheMacReplacesTheOneBefore(t *testing.T) {
	p := podtest.OnMac("a", corev1.RestartPolicyNever)
	p.Status.HostIP, p.Status.HostIPs = "10.0.0.7", []corev1.HostIP{{IP: "10.0.0.7"}}
	client := fake.NewClientset(p)
	w := New(kubetest.Client(client), clock.RealClock{}, slog.New(slog.DiscardHandler), p)
	if _, err := w.write(t.Context(), version{status: corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "10.0.0.8", HostIPs: []corev1.HostIP{{IP: "10.0.0.8"}}}}); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().Pods("ns").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := got.Status; s.HostIP != "10.0.0.8" || !slices.Equal(s.HostIPs, []corev1.HostIP{{IP: "10.0.0.8"}}) {
		t.Errorf("address %s, addresses %v", s.HostIP, s.HostIPs)
	}
}

// A role or a policy may be wrong for a moment, and what is refused for good is given up: nobody waits for it.
func TestOnlyAStatusThatIsRefusedForLongIsGivenUp(t *testing.T) {
	const moment, long = 25 * time.Second, 10 * time.Minute
	pods := corev1.Resource("pods")
	webhook := func(code int32, reason metav1.StatusReason) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: code, Reason: reason, Message: `admission webhook "w" denied the request: pods "a" not found`,
			Details: &metav1.StatusDetails{Name: "a", Kind: "pods"},
		}}
	}
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: "a webhook denied the request"}}
	for name, c := range map[string]struct {
		err     error
		lasts   time.Duration
		givenUp bool
	}{
		"Forbidden for a moment":       {apierrors.NewForbidden(pods, "a", errors.New("no role")), moment, false},
		"Forbidden":                    {apierrors.NewForbidden(pods, "a", errors.New("no role")), long, true},
		"Invalid for a moment":         {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), moment, false},
		"Invalid":                      {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), long, true},
		"a webhook without a code":     {denied, long, true},
		"a webhook's 404 for a moment": {webhook(http.StatusNotFound, metav1.StatusReasonNotFound), moment, false},
		"a webhook's 404":              {webhook(http.StatusNotFound, metav1.StatusReasonNotFound), long, true},
		"a webhook's 409 for a moment": {webhook(http.StatusConflict, metav1.StatusReasonConflict), moment, false},
		"a proxy's 404 for a moment":   {apierrors.NewGenericServerResponse(http.StatusNotFound, "PATCH", pods, "a", "404 page not found", 0, true), moment, false},
		"another object is not found":  {apierrors.NewNotFound(corev1.Resource("secrets"), "a"), moment, false},
		"a conflict of versions":       {apierrors.NewConflict(pods, "a", errors.New("the object has been modified")), moment, false},
		"too large":                    {apierrors.NewRequestEntityTooLargeError("more than there may be"), long, true},
		"an API server that is away":   {apierrors.NewServiceUnavailable("it restarts"), long, false},
		"a credential that has lapsed": {apierrors.NewUnauthorized("renew it"), long, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, begin := podtest.OnMac("a", corev1.RestartPolicyNever), time.Now()
				client := fake.NewClientset(p)
				client.PrependReactor("patch", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
					return time.Since(begin) < c.lasts, nil, c.err
				})
				w := New(kubetest.Client(client), clock.RealClock{}, slog.New(slog.DiscardHandler), p)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go w.Run(ctx)
				w.Set(corev1.PodStatus{Phase: corev1.PodRunning})
				err, least := w.Flush(ctx), c.lasts
				if c.givenUp {
					least = 30 * time.Second
				}
				if took := time.Since(begin); errors.Is(err, c.err) != c.givenUp || (err != nil) != c.givenUp || took < least || took > least+retryMost {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}
