package machine

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// absencePoll is how often a Machine whose Host is missing asks what the lists
// of its zone say.
const absencePoll = host.GoneAfter

// absences remembers which intended Hosts did not exist when they were looked
// for, and since when. It lives in memory only: after a restart the proof that a
// server is gone is simply begun again.
type absences struct {
	mu        sync.Mutex
	byMachine map[types.NamespacedName]absence
}

// absence is one Host that does not exist.
type absence struct {
	token string
	since time.Time
	// listed is when the first list since then was begun; zero: none yet.
	listed time.Time
}

func (a *absences) forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byMachine, key)
}

// note takes in that the Host of an intent does not exist now, and how its zone
// was last listed. It reports whether that proves the server gone. The inventory
// makes a Host for every server it lists: two lists as far apart as host.GoneAfter,
// both begun after the Host was first missed, held no such server.
func (a *absences) note(key types.NamespacedName, token string, now time.Time, report host.ZoneReport) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, is := a.byMachine[key]
	if !is || known.token != token {
		known = absence{token: token, since: now}
	}
	believed := report.Err == nil && !report.Suspicious && report.Hosts > 0 && report.At.After(known.since)
	gone := believed && !known.listed.IsZero() && report.At.Sub(known.listed) >= host.GoneAfter
	if believed && known.listed.IsZero() {
		known.listed = report.At
	}
	if a.byMachine == nil {
		a.byMachine = map[types.NamespacedName]absence{}
	}
	a.byMachine[key] = known
	return gone
}

// lost judges an intent whose Host does not exist, from an uncached read: there is
// nothing to hold or to release when the Machine never held the Host, or when the
// server is gone.
func (r *Reconciler) lost(ctx context.Context, v *visit) (bool, error) {
	staged, err := r.readStaged(ctx, client.ObjectKeyFromObject(v.machine))
	if err != nil {
		return false, err
	}
	return neverHeld(v.machine, staged) || r.vanished(v), nil
}

// neverHeld reports that by its own records the Machine never held the Host that
// it means: no status speaks of it, and nothing was staged for its claim.
func neverHeld(m *infrav1.ScalewayAppleSiliconMachine, s staged) bool {
	ref := m.Spec.HostRef
	return m.Spec.ProviderID == "" && m.Status.HostName == "" && m.Status.ServerID == "" && s.claimToken != ref.ClaimToken
}

// vanished reports that the vendor no longer has the server of the missing Host.
func (r *Reconciler) vanished(v *visit) bool {
	if r.Zone == nil {
		return false
	}
	v.poll = absencePoll
	report, _ := r.Zone(hostZone(v.machine.Spec.HostRef.Name))
	return r.absences.note(client.ObjectKeyFromObject(v.machine), v.token(), r.Clock.Now(), report)
}

// serverIDLength is that of a server's id, a UUID, which ends a Host's name.
const serverIDLength = 36

// hostZone is the zone in a Host's name; see host.ObjectName.
func hostZone(name string) string { return name[:max(0, len(name)-serverIDLength-1)] }

// providerIDOf is the providerID of the server in a Host's name.
func providerIDOf(name string) string {
	zone := hostZone(name)
	return host.ProviderID(zone, strings.TrimPrefix(name, zone+"-"))
}
