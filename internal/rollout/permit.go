package rollout

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Permit is what TurnAnnotation holds of a Machine's last update permit.
type Permit struct {
	At time.Time `json:"at"`
	// Guests that ran when it began, by the UIDs of their Pods.
	Guests []types.UID `json:"guests,omitempty"`
}

// LastPermit of a Machine; zero when it had none, or when nobody can read it.
func LastPermit(m *infrav1.ScalewayAppleSiliconMachine) Permit {
	var p Permit
	if json.Unmarshal([]byte(m.Annotations[infrav1.TurnAnnotation]), &p) != nil {
		return Permit{}
	}
	return p
}

// PermitAt is the time to record for a permit that begins now: after all that is on
// record of the Machine, which another manager's clock may have told.
func PermitAt(m *infrav1.ScalewayAppleSiliconMachine, now time.Time) time.Time {
	at := now.UTC().Truncate(time.Second)
	u := m.Status.Update
	for _, t := range []time.Time{Instant(u.ProvedAt), Instant(u.LastFailedAt), Instant(u.HeldAt)} {
		at = following(at, t.Add(time.Second))
	}
	return at
}

// TriedAt is the time to record for what a Mac has proved, failed or put off now: not
// before its permit, and not before what was recorded last.
func TriedAt(m *infrav1.ScalewayAppleSiliconMachine, now time.Time) time.Time {
	at, u := now, m.Status.Update
	for _, t := range []time.Time{LastPermit(m).At, Instant(u.ProvedAt), Instant(u.LastFailedAt), Instant(u.HeldAt)} {
		at = following(at, t)
	}
	return at
}

// following is the later of the two, unless no clock can be ahead by so much.
func following(now, earlier time.Time) time.Time {
	if earlier.After(now) && !earlier.After(now.Add(permitLimit)) {
		return earlier
	}
	return now
}
