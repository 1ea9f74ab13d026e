package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Somebody deleted the CRDs: nothing is left, and what cannot be read is no such answer.
func TestNothingIsLeftWhereTheKindsAreGone(t *testing.T) {
	answer := error(&meta.NoKindMatchError{})
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return answer },
	}).Build()
	if left, err := lookAtWhatIsLeft(t.Context(), c, "ns"); err != nil || !left.Nothing() {
		t.Errorf("%+v, %v", left, err)
	}
	answer = errors.New("the API server is away")
	if _, err := lookAtWhatIsLeft(t.Context(), c, "ns"); !errors.Is(err, answer) {
		t.Errorf("%v: want %v", err, answer)
	}
}

func TestUninstallCheck(t *testing.T) {
	mac := func(edit func(*infrav1.ScalewayAppleSiliconHost)) client.Object {
		h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: "h"}}
		edit(h)
		return h
	}
	for name, c := range map[string]struct {
		there client.Object
		// says and fails are parts of what is printed and of the error; no fails: it ends well.
		says, fails string
		// waits is how often it waited between two looks.
		waits int
	}{
		"a free Mac": {
			there: mac(func(*infrav1.ScalewayAppleSiliconHost) {}), says: "no Mac is left",
		},
		"a Machine": {
			there: &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}},
			fails: "the release is not deleted: Machine ns/a is not being deleted", waits: uninstallSettles - 1,
		},
		"another namespace's Machine": {
			there: &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "other-system"}}, says: "no Mac is left",
		},
		"a stranded Mac": {
			there: mac(func(h *infrav1.ScalewayAppleSiliconHost) {
				h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "ns", Name: "a", Token: "t-1"}
			}),
			fails: "the release is not deleted: host h is claimed", waits: uninstallSettles - 1,
		},
		"another namespace's Mac": {
			there: mac(func(h *infrav1.ScalewayAppleSiliconHost) {
				h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "other-system", Name: "a", Token: "t-1"}
			}), says: "no Mac is left",
		},
		// It ends by itself: only the Job's own deadline ends the wait.
		"a release": {
			there: mac(func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Release = &infrav1.Release{} }),
			says:  "host h is being released and wiped", fails: context.DeadlineExceeded.Error(), waits: 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme, err := newScheme()
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 6*uninstallPoll)
				defer cancel()
				var said strings.Builder
				err = untilNothingIsLeft(ctx, fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.there).Build(), "ns", &said)
				if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v: want %q", err, c.fails)
				}
				if got := said.String(); (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
					t.Errorf("it says %q, want %q", got, c.says)
				}
				if took, want := time.Since(began), time.Duration(c.waits)*uninstallPoll; took != want {
					t.Errorf("it took %s, want %s", took, want)
				}
			})
		})
	}
}
