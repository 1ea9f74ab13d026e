package scaleway

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"
)

// Calls read the session that they began with while what is wrong with another key is noted.
func TestASessionInUseIsNotChanged(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC))
	found := Credentials{AccessKey: "SCWXXXXXXXXXXXXXXXXX", SecretKey: "11111111-1111-1111-1111-111111111111", ProjectID: "22222222-2222-2222-2222-222222222222"}
	s, err := newSessions(Options{
		AccessKey: found.AccessKey, SecretKey: found.SecretKey, ProjectID: found.ProjectID,
		Source: func() (Credentials, error) { return found, nil }, Clock: clock, Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	inUse := s.current()
	said := inUse.which()
	found.SecretKey = "hunter2"
	clock.Step(sourceInterval)
	if now := s.current().which(); now == said || inUse.which() != said {
		t.Errorf("of the session in use %q, of the next %q; want %q, and another", inUse.which(), now, said)
	}
}
