package host

import (
	"fmt"
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// At rest nothing is written, and the vendor is asked for lists alone, and once for its server types.
func TestNothingIsWrittenAtRest(t *testing.T) {
	edit := func(w *world, change func(*host.Host)) {
		h := w.host()
		change(h)
		w.must(w.client.Update(w.ctx, h))
	}
	for phase, arrange := range map[infrav1.HostPhase]func(*testing.T) *world{
		infrav1.HostAvailable: newWorld,
		infrav1.HostInUse:     inUse,
		infrav1.HostForeign:   foreign,
		infrav1.HostDirty:     abandoned,
		infrav1.HostWiping:    stuck,
		infrav1.HostMaintenance: func(t *testing.T) *world {
			w := foreign(t)
			edit(w, func(h *host.Host) {
				h.Spec.Maintenance = &infrav1.Maintenance{}
				h.Spec.Adopt = &infrav1.Adoption{PoolPrefix: prefix}
			})
			return w
		},
		infrav1.HostQuarantined: func(t *testing.T) *world {
			w := foreign(t)
			edit(w, func(h *host.Host) { h.Spec.Quarantine = &infrav1.Quarantine{Reason: "r"} })
			return w
		},
		infrav1.HostStranded: func(t *testing.T) *world {
			w := inUse(t)
			w.must(w.client.Delete(w.ctx, w.owner()))
			return w
		},
		infrav1.HostHandedOver: func(t *testing.T) *world {
			w := inUse(t)
			w.must(w.client.Delete(w.ctx, w.owner()))
			edit(w, func(h *host.Host) { host.RecordMove(h, w.clock.Now()) })
			return w
		},
		infrav1.HostRetiring: func(t *testing.T) *world {
			w := newWorld(t)
			w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletionScheduled = true })
			return w
		},
	} {
		t.Run(string(phase), func(t *testing.T) {
			w := arrange(t)
			w.untilPhase(phase)
			w.must(w.step())
			w.cloud.Forget()
			writes := w.written()
			for range 10 {
				w.clock.Step(30 * time.Second)
				w.must(w.step())
			}
			if w.phase() != phase || w.written() != writes || w.called("ListServers")+w.called("ServerTypes") != len(w.cloud.Calls()) || w.called("ServerTypes") > 1 {
				t.Errorf("phase %s, %d writes, calls %v", w.phase(), w.written()-writes, w.cloud.Calls())
			}
		})
	}
}

// A routine deletion gives the Mac to the pool and never to the vendor, whatever
// the vendor answers at whichever step, and no failed answer frees the host.
func TestRequirement000_ReleaseToPoolWhateverTheVendorAnswers(t *testing.T) {
	for _, call := range []string{"GetServer", "ReinstallServer", "RenameServer"} {
		for _, kind := range []cloud.Kind{
			cloud.KindTransient, cloud.KindNotFound, cloud.KindUnavailable, cloud.KindForbidden, cloud.KindFloor, cloud.KindThrottled, cloud.KindLocked,
		} {
			t.Run(fmt.Sprintf("%s answers %s", call, kind), func(t *testing.T) {
				w := inUse(t)
				w.guard() // no DeleteServer, no pool name before the wipe
				failing := true
				w.cloud.Fault = func(c cloudtest.Call) (error, error) {
					if c.Name == call && failing {
						return cloudtest.Err(kind), nil
					}
					return nil, nil
				}
				w.release()
				for range 5 {
					_ = w.step()
				}
				if h := w.host(); h.Spec.Release == nil || host.Clean(h) {
					t.Fatalf("a failed call advanced the release: %+v", h.Spec)
				}
				failing = false
				w.wiped()
				w.checkFree()
			})
		}
	}
}

// A person deleted the server: at whichever step, the release ends with it.
func TestRequirement000_AServerDeletedByHandEndsTheRelease(t *testing.T) {
	for name, due := range map[string]func(*world) bool{
		"before the reinstall":  func(w *world) bool { return true },
		"once it was asked for": func(w *world) bool { return w.called("ReinstallServer") > 0 },
		"while it is wiped":     func(w *world) bool { return w.host().Spec.Record.Wipe.StartedAt != nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			w.another(1)
			w.guard()
			w.release()
			w.until("due", func() bool { return due(w) })
			w.cloud.Remove(serverID)
			w.until("removed", func() bool { w.clock.Step(time.Minute); return w.host() == nil })
		})
	}
}
