package cloud_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/macfleet/macfleet/internal/cloud"
)

func TestEachPredicateMatchesItsKindOnly(t *testing.T) {
	predicates := map[cloud.Kind]func(error) bool{
		cloud.KindNotFound: cloud.IsNotFound, cloud.KindForbidden: cloud.IsForbidden,
		cloud.KindUnauthorized: cloud.IsUnauthorized, cloud.KindTransient: cloud.IsTransient,
		cloud.KindFloor: cloud.IsFloor, cloud.KindThrottled: cloud.IsThrottled,
		cloud.KindUnavailable: cloud.IsUnavailable, cloud.KindLocked: cloud.IsLocked,
		cloud.KindUnknownZone: cloud.IsUnknownZone, cloud.KindInvalid: cloud.IsInvalid,
	}
	for made := range predicates {
		err := fmt.Errorf("claiming: %w", &cloud.Error{Kind: made, Doing: "rename server"})
		for asked, is := range predicates {
			if got, want := is(err), made == asked; got != want {
				t.Errorf("kind %s, predicate of %s: got %v, want %v", made, asked, got, want)
			}
		}
	}
}

func TestForeignErrorsHaveNoKind(t *testing.T) {
	for _, err := range []error{nil, errors.New("precondition_failed"), (*cloud.Error)(nil)} {
		if kind := cloud.KindOf(err); kind != "" {
			t.Errorf("KindOf(%v) = %q", err, kind)
		}
	}
}

func TestErrorTextIsOneLineWithoutTheCause(t *testing.T) {
	err := &cloud.Error{
		Kind: cloud.KindFloor, Doing: "delete server fr-par-1/a", Message: "precondition is not respected",
		RequestID: "r-1", Err: errors.New("hidden"),
	}
	if got, want := err.Error(), "delete server fr-par-1/a: precondition is not respected (request r-1)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (&cloud.Error{Kind: cloud.KindThrottled, Doing: "list"}).Error(), "list: throttled"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
