package host_test

import (
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// What the vendor holds up is waited for without calls, but not for ever: an old reading does
// not outlast the timeout.
func TestAWipeIsPendingUntilItsTimeIsOver(t *testing.T) {
	h := pooled(released, func(h *host.Host) { h.Spec.Record.Wipe.RequestedAt = at(6) })
	for status, pending := range map[cloud.Status]bool{"locked": true, cloud.StatusReady: false} {
		in := host.WipeInput{
			Server: cloud.Server{ID: serverID, Name: h.Spec.ClaimRef.Name, Status: status, Delivered: true}, Began: at(10).Time, Timeout: time.Hour,
		}
		for minute, want := range map[int]bool{65: pending, 66: false} {
			if got := host.WipePending(h, in, at(minute).Time); got != want {
				t.Errorf("%s, minute %d: pending %t, want %t", status, minute, got, want)
			}
		}
	}

	reading := func(status cloud.Status) host.WipeInput {
		return host.WipeInput{Server: cloud.Server{ID: serverID, Name: "m-1", Status: status, Delivered: true}, Began: at(10).Time, Timeout: time.Hour}
	}
	if host.WipePending(pooled(wiping), reading("locked"), at(11).Time) {
		t.Error("a wipe that runs is yet to be asked for")
	}
	older := reading(cloud.StatusReinstalling)
	older.Began = at(6).Add(-1)
	if host.WipePending(h, older, at(11).Time) {
		t.Error("another reinstall that runs holds the wipe up")
	}
	given := pooled(wiping)
	host.RecordWipeAbandoned(given, infrav1.ReasonWipeTimedOut, at(80).Time)
	if !host.WipePending(given, reading("locked"), at(90).Time) {
		t.Error("a wipe that is left to a person is asked for while the vendor holds the server")
	}
}
