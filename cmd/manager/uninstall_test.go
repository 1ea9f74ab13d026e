package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/uninstall"
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
		// It ends by itself: only the command's own deadline ends the wait.
		"a release": {
			there: mac(func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Release = &infrav1.Release{} }),
			says:  "host h is being released and wiped",
			fails: "the release is not deleted: the time to wait is over; host h is being released and wiped", waits: 6,
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
				if err != nil && !strings.Contains(err.Error(), "type helm uninstall again; to keep the release, helm rollback") {
					t.Errorf("%v: the way on is missing, which Helm does not tell", err)
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

// An API server that is away for a while is no reason to begin an hour's wait anew.
func TestUninstallCheckOutlivesAnAPIServer(t *testing.T) {
	away := errors.New("the API server is away")
	for name, c := range map[string]struct {
		// fails are the looks, counted from 1, that fail; the others find a Mac that is wiped.
		fails func(look int) bool
		// looks is how many there are; the last one finds nothing, where it does not fail.
		looks   int
		refuses string
	}{
		"for a while":  {fails: func(look int) bool { return look < uninstallFailures }, looks: uninstallFailures},
		"for good":     {fails: func(int) bool { return true }, looks: uninstallFailures, refuses: "the release is not deleted: listing Cluster API's Machines: " + away.Error()},
		"now and then": {fails: func(look int) bool { return look%uninstallFailures != 0 }, looks: 3 * uninstallFailures},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme, err := newScheme()
				if err != nil {
					t.Fatal(err)
				}
				wiped := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: "h"}, Spec: infrav1.ScalewayAppleSiliconHostSpec{Release: &infrav1.Release{}}}
				look := 0
				list := func(ctx context.Context, under client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
					if _, first := list.(*clusterv1.MachineList); first {
						look++
					}
					if c.fails(look) {
						return away
					}
					if _, hosts := list.(*infrav1.ScalewayAppleSiliconHostList); hosts && look == c.looks {
						return nil
					}
					return under.List(ctx, list, options...)
				}
				there := fake.NewClientBuilder().WithScheme(scheme).WithObjects(wiped).WithInterceptorFuncs(interceptor.Funcs{List: list}).Build()
				var said strings.Builder
				err = untilNothingIsLeft(t.Context(), there, "ns", &said)
				if (err != nil) != (c.refuses != "") || err != nil && !strings.Contains(err.Error(), c.refuses) {
					t.Errorf("%v: want %q", err, c.refuses)
				}
				if look != c.looks || !strings.Contains(said.String(), away.Error()) {
					t.Errorf("%d looks, want %d; it says %q", look, c.looks, said.String())
				}
			})
		})
	}
}

// Helm's own --timeout may end before a wipe does, and what is left is asked for afterwards.
func TestUninstallCheckTellsWhatWasLeftOnceItsRightsAreGone(t *testing.T) {
	for name, refused := range map[string]error{
		"token ended":    apierrors.NewUnauthorized("Unauthorized"),
		"binding is off": apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "", nil),
	} {
		var w watch
		if over, err := w.look(uninstall.Left{Passes: []string{"host h is being released and wiped"}}, nil); over || err != nil {
			t.Fatalf("%s: over %t, %v", name, over, err)
		}
		for range uninstallFailures - 1 {
			if over, err := w.look(uninstall.Left{}, refused); over || err != nil {
				t.Fatalf("%s: over %t, %v before it is sure", name, over, err)
			}
		}
		over, err := w.look(uninstall.Left{}, fmt.Errorf("listing the hosts: %w", refused))
		if !over || err == nil || !strings.Contains(err.Error(), "rights were taken away") || !strings.Contains(err.Error(), "host h is being released") {
			t.Errorf("%s: over %t, %v; want what was left told", name, over, err)
		}
		var never watch
		if over, err := never.look(uninstall.Left{}, refused); over || err != nil {
			t.Errorf("%s: over %t, %v at the first look; want another", name, over, err)
		}
	}
}

// The chart gives the command less time than its Job has, so that it ends with a sentence.
func TestAOneOffEndsInItsTime(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for within, args := range map[time.Duration][]string{0: nil, time.Hour: {"--timeout=1h"}} {
		var left time.Duration
		o := oneOff{name: "uninstall", verb: "check", run: func(ctx context.Context, _ connection, _ io.Writer) error {
			if at, bounded := ctx.Deadline(); bounded {
				left = time.Until(at)
			}
			return nil
		}}
		var stderr strings.Builder
		if code := o.execute(t.Context(), append([]string{"check", "--kubeconfig=" + kubeconfig}, args...), io.Discard, &stderr); code != 0 {
			t.Errorf("%q: exit %d, %s", args, code, stderr.String())
		}
		if left > within || left < within-time.Minute {
			t.Errorf("%q: it has %s, want %s", args, left, within)
		}
	}
}
