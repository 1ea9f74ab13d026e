// Package requeue says what a reconciler does about a write that lost its race: it
// looks again soon, and reports no error, or it tries again at once.
package requeue

import (
	"cmp"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Delay is how long a stale read is given to become a fresh one.
const Delay = 250 * time.Millisecond

// ErrStale says that an object has changed since it was read.
var ErrStale = errors.New("the object has changed since it was read")

// OnConflict makes a lost race against a newer version of an object an ordinary second
// look instead of an error.
func OnConflict(result ctrl.Result, err error) (ctrl.Result, error) {
	if err != nil && onlyConflict(err) {
		return ctrl.Result{RequeueAfter: Delay}, nil
	}
	return result, err
}

// Retry acts, and acts again at once where it lost its race, a few times. The act reads
// anew each time.
func Retry(act func() error) error {
	var last error
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		last = act()
		return last
	})
	return cmp.Or(err, last) // a call out of time ends the retries, which forget its error
}

// onlyConflict looks through joined errors for anything else.
func onlyConflict(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			if !onlyConflict(one) {
				return false
			}
		}
		return true
	}
	return apierrors.IsConflict(err) || errors.Is(err, ErrStale)
}
