package requeue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestOnConflict(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "a", errors.New("stale"))
	plain := errors.New("plain")
	for name, c := range map[string]struct {
		err  error
		soon bool
	}{
		"none":                      {nil, false},
		"conflict":                  {conflict, true},
		"wrapped conflict":          {fmt.Errorf("recording: %w", conflict), true},
		"stale read":                {fmt.Errorf("confirming: %w", ErrStale), true},
		"conflicts alone":           {errors.Join(conflict, ErrStale), true},
		"conflict and another":      {errors.Join(conflict, plain), false},
		"conflict, another, nested": {errors.Join(conflict, errors.Join(ErrStale, plain)), false},
		"another":                   {plain, false},
	} {
		t.Run(name, func(t *testing.T) {
			given := ctrl.Result{RequeueAfter: time.Hour}
			result, err := OnConflict(given, c.err)
			if c.soon && (result.RequeueAfter != Delay || err != nil) {
				t.Errorf("result = %+v, error = %v, want another look soon", result, err)
			}
			if !c.soon && (result != given || !errors.Is(err, c.err)) {
				t.Errorf("result = %+v, error = %v, want both as they were", result, err)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "a", errors.New("stale"))
	late := fmt.Errorf("writing: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		answers []error
		want    error
	}{
		"at once":                          {[]error{nil}, nil},
		"after a lost race":                {[]error{conflict, nil}, nil},
		"a call out of time is no success": {[]error{late}, late},
	} {
		t.Run(name, func(t *testing.T) {
			acts := 0
			err := Retry(func() error { acts++; return c.answers[acts-1] })
			if !errors.Is(err, c.want) || acts != len(c.answers) {
				t.Errorf("error = %v after %d acts, want %v after %d", err, acts, c.want, len(c.answers))
			}
		})
	}
}
