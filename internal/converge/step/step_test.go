package step

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
)

func TestClassOfErrors(t *testing.T) {
	cases := map[string]struct {
		err  error
		want document.Class
	}{
		"classified": {fmt.Errorf("x: %w", Fail(document.Human, "y")), document.Human},
		"anything":   {errors.New("x"), document.Retry},
	}
	for name, c := range cases {
		if got := ClassOf(c.err); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAwaitStopsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := Await(ctx, macostest.New().Interfaces().Clock, time.Hour, "x", func() (bool, error) { return false, nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
