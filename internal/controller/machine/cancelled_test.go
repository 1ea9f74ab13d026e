package machine

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// cancelledReader answers as a client does whose context was cancelled meanwhile.
type cancelledReader struct{ client.Reader }

func (cancelledReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return context.Canceled
}

// A push is cancelled when its Machine is deleted. What it was about to record is
// not recorded, and must not count as such.
func TestACancelledRecordIsNone(t *testing.T) {
	w := newWorld(t, append(pair("mac-1"), poolHost(serverID))...)
	r := w.reconciler(cancelledReader{w.client})
	h, err := r.amendHost(t.Context(), hostName, infrav1.ClaimReference{Token: "token"}, func(*host.Host) bool { return true })
	if !errors.Is(err, context.Canceled) || h != nil {
		t.Errorf("amendHost = %v, %v, want it cancelled", h, err)
	}
}
