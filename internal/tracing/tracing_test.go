package tracing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/macfleet/macfleet/internal/tracing"
	"github.com/macfleet/macfleet/internal/tracing/tracingtest"
)

// A reconcile that makes spans is their parent, and one that makes none is none. Steps that are over lie below what
// reported them.
func TestSpans(t *testing.T) {
	collector := tracingtest.Start(t)
	tracer, stop, err := tracing.New(t.Context(), collector.URL, "v1")
	if err != nil {
		t.Fatal(err)
	}
	busy := tracer.Reconciler("host", reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		for _, call := range []string{"GetServer", "RenameServer"} {
			_, end := tracer.Call(ctx, call)
			end(nil)
		}
		below, end := tracer.Start(ctx, "ssh converge", "server.address", "10.0.0.1")
		tracer.Past(below, []tracing.Step{{Name: "mac/sshd", Took: time.Second}, {Name: "mac/power", Took: time.Second, Failed: "retry"}})
		end(errors.New("step power failed"))
		return reconcile.Result{}, nil
	}))
	idle := tracer.Reconciler("idle", reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil
	}))
	for _, r := range []reconcile.Reconciler{busy, idle} {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "mac-1"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"reconcile host",
		"reconcile host > ssh converge", "reconcile host > vendor GetServer", "reconcile host > vendor RenameServer",
		"ssh converge > mac/power", "ssh converge > mac/sshd",
	}
	if diff := cmp.Diff(want, collector.Tree()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range collector.Spans() {
		switch {
		case s.Name == "reconcile host" && s.Attributes["object"] != "/mac-1",
			s.Name == "ssh converge" && (s.Failed != "step power failed" || s.Attributes["server.address"] != "10.0.0.1"),
			s.Name == "mac/power" && s.Failed != "retry", s.Name == "mac/sshd" && s.Failed != "":
			t.Errorf("%+v", s)
		}
	}
}

// The zero Tracer makes no span, and changes no reconciler.
func TestNoTracer(t *testing.T) {
	var none tracing.Tracer
	ctx, end := none.Start(t.Context(), "push")
	none.Past(ctx, []tracing.Step{{Name: "mac/sshd"}})
	end(nil)
	if ctx != t.Context() {
		t.Error("it changed the context")
	}
}
