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
	// listed is when the first believed list since then was begun; zero: none yet.
	listed time.Time
	// emptied is when the first of the empty lists was begun that all have been since
	// then, and that prove nothing; zero: the last list was another.
	emptied time.Time
}

// proof is what the lists of a zone say of a server whose Host does not exist.
type proof int

const (
	// proofNone: not enough yet.
	proofNone proof = iota
	// proofGone: the vendor no longer has the server.
	proofGone
	// proofNever: for long the lists have been empty, as with lost rights. Waiting
	// will not bring a proof, unless the zone is mended.
	proofNever
)

func (a *absences) forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byMachine, key)
}

// note takes in that the Host of an intent does not exist now, and how its zone
// was last listed. It reports what that proves. The inventory makes a Host for every
// server it lists: two lists as far apart as host.GoneAfter, both begun after the
// Host was first missed, held no such server. An empty list counts only where
// another zone's list bears witness to our rights.
func (a *absences) note(key types.NamespacedName, token string, now time.Time, report host.ZoneReport) proof {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, is := a.byMachine[key]
	if !is || known.token != token {
		known = absence{token: token, since: now}
	}
	told := proofNone
	if report.Err == nil && report.At.After(known.since) {
		told = known.take(report)
	}
	if a.byMachine == nil {
		a.byMachine = map[types.NamespacedName]absence{}
	}
	a.byMachine[key] = known
	return told
}

// take takes in a list that was begun after the Host was first missed.
func (a *absence) take(report host.ZoneReport) proof {
	if report.Hosts == 0 && !report.EmptyBelieved {
		if a.emptied.IsZero() {
			a.emptied = report.At
		}
		if report.At.Sub(a.emptied) >= host.GoneAfterSuspicious {
			return proofNever
		}
		return proofNone
	}
	a.emptied = time.Time{}
	switch {
	case report.Suspicious:
	case a.listed.IsZero():
		a.listed = report.At
	case report.At.Sub(a.listed) >= host.GoneAfter:
		return proofGone
	}
	return proofNone
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
	return r.listsAgree(v, hostZone(v.machine.Spec.HostRef.Name), v.token())
}

// listsAgree reports that the zone was listed well enough since the Machine first
// missed its server, or its own name on it; the token tells what it misses from what
// it missed before.
func (r *Reconciler) listsAgree(v *visit, zone, token string) bool {
	if r.Zone == nil {
		return false
	}
	v.poll = absencePoll
	report, _ := r.Zone(zone)
	v.proof = r.absences.note(client.ObjectKeyFromObject(v.machine), token, r.Clock.Now(), report)
	return v.proof == proofGone
}

// serverIDLength is that of a server's id, a UUID, which ends a Host's name.
const serverIDLength = 36

// hostZone is the zone in a Host's name; see host.ObjectName.
func hostZone(name string) string { return name[:max(0, len(name)-serverIDLength-1)] }

// hostNamed is what the name of a Host tells of it.
func hostNamed(name string) *host.Host {
	zone := hostZone(name)
	h := &host.Host{Spec: infrav1.ScalewayAppleSiliconHostSpec{Zone: zone, ServerID: strings.TrimPrefix(name, zone+"-")}}
	h.Name = name
	return h
}

// providerIDOf is the providerID of the server in a Host's name.
func providerIDOf(name string) string {
	zone := hostZone(name)
	return host.ProviderID(zone, strings.TrimPrefix(name, zone+"-"))
}

// hostOfProviderID is the name of the Host of the server in a providerID.
func hostOfProviderID(providerID string) string {
	zone, id, _ := strings.Cut(strings.TrimPrefix(providerID, infrav1.ProviderIDPrefix), "/")
	return host.ObjectName(zone, id)
}
