package host

import (
	"strings"
	"testing"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// releasedAndLost is the zone's only server, which vanished in the midst of its release.
func releasedAndLost(t *testing.T) *world {
	t.Helper()
	w := inUse(t)
	w.release()
	w.cloud.Remove(serverID)
	w.stepFor(2 * host.GoneAfterSuspicious)
	if w.host() == nil {
		t.Fatal("an empty list that nobody vouches for ended a release")
	}
	return w
}

// stepFor steps until that time is over. Errors are tried again, like by the work queue.
func (w *world) stepFor(d time.Duration) {
	for began := w.clock.Now(); w.clock.Since(began) < d; w.clock.Step(w.r.InventoryInterval) {
		_ = w.step()
	}
}

// A person's word is the way out where no other zone bears witness.
func TestAReleasedHostOfTheLastServerEndsWhenAPersonDeletesIt(t *testing.T) {
	w := releasedAndLost(t)
	w.must(w.client.Delete(w.ctx, w.host()))
	w.stepFor(time.Minute)
	if h := w.host(); h != nil {
		t.Errorf("phase %s, finalizers %v long after ten minutes of empty lists", h.Status.Phase, h.Finalizers)
	}
}

func TestAHostThatAPersonDeletesInItsReleaseWaitsTenMinutes(t *testing.T) {
	w := inUse(t)
	w.release()
	w.cloud.Remove(serverID)
	_ = w.step() // the vendor forbids what is not there
	w.must(w.client.Delete(w.ctx, w.host()))
	w.stepFor(host.GoneAfterSuspicious - 2*time.Minute)
	if w.host() == nil {
		t.Fatal("gone before ten minutes of empty lists")
	}
	w.stepFor(3 * time.Minute)
	if w.host() != nil {
		t.Error("still there after ten minutes of empty lists")
	}
}

func TestADeletedHostStaysWhileItsServerMayBeHidden(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"claimed, not released": func(w *world) {
			h := w.host()
			h.Spec.Release, h.Spec.Record.Wipe.RequestedAt, h.Spec.Record.Wipe.StartedAt = nil, nil, nil
			w.must(w.client.Update(w.ctx, h))
		},
		"credentials refused": func(w *world) {
			w.cloud.Fault = func(c cloudtest.Call) (error, error) {
				if c.Name == "CheckAccess" {
					return cloudtest.Err(cloud.KindForbidden), nil
				}
				return nil, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := releasedAndLost(t)
			prepare(w)
			w.must(w.client.Delete(w.ctx, w.host()))
			w.stepFor(2 * host.GoneAfterSuspicious)
			if w.host() == nil {
				t.Error("removed on the word of an empty list")
			}
		})
	}
}

func TestAnEmptyListIsBelievedBesideAZoneThatListsServers(t *testing.T) {
	w := newWorld(t)
	const other = "fr-par-3"
	w.inventory.Zone(other)
	w.inventory.Sweep(w.ctx)
	w.inventory.Sweep(w.ctx) // the first one ran beside the witness's
	if report, _ := w.inventory.Zone(other); !report.EmptyBelieved || report.Hosts != 0 {
		t.Errorf("zone %s: %+v, want an empty list that is believed", other, report)
	}
	if report, _ := w.inventory.Zone(zone); report.EmptyBelieved {
		t.Errorf("zone %s: %+v, vouched for by an empty list", zone, report)
	}
	w.inventory.report(w.ctx, zone, func(r *host.ZoneReport) { r.Err = cloudtest.Err(cloud.KindUnavailable) })
	if w.inventory.witness(other) {
		t.Error("vouched for by a list that failed")
	}
}

// The key was replaced by one of another project and the manager started anew: its lists lack
// all Macs of the old project, and the vendor forbids their GETs as those of deleted ones.
func TestTheListOfAnotherProjectProvesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		project string
		given   bool // by a person, who deletes its Host
		gone    bool
	}{
		"of the same project":               {"p-1", false, true},
		"of another project":                {"p-2", false, false},
		"of another project, and given up":  {"p-2", true, true},
		"of a project that nobody tells of": {"", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			opts := w.r.Options
			opts.Project = "p-1"
			w.start(opts)
			w.untilPhase(infrav1.HostAvailable)
			w.claim("m-1", "t-1")
			w.untilPhase(infrav1.HostInUse)
			w.release()
			w.cloud.Remove(serverID)
			w.another(1)
			opts.Project = row.project
			w.start(opts)
			if row.given {
				w.must(w.client.Delete(w.ctx, w.host()))
			}
			w.stepFor(20 * time.Minute)
			if h := w.host(); (h == nil) != row.gone || h != nil && (h.Status.Phase == infrav1.HostGone || h.Status.MissingSince == nil) {
				t.Fatalf("after twenty minutes: %+v", h)
			}
			report, _ := w.inventory.Zone(zone)
			if says := "the credentials are of project p-2, and Hosts (1) of another, such as " + host.ObjectName(zone, serverID) + " of project p-1"; strings.Contains(report.Unreadable(), says) == row.gone || report.Suspicious == row.gone {
				t.Errorf("the zone: %+v, %q", report, report.Unreadable())
			}
		})
	}
}

// A Host of a time before projects were recorded, and one whose server was moved, are of the
// project whose list shows them.
func TestTheProjectIsThatOfTheListThatShowsTheServer(t *testing.T) {
	w := newWorld(t)
	w.untilPhase(infrav1.HostAvailable)
	for _, project := range []string{"p-1", "p-2"} {
		opts := w.r.Options
		opts.Project = project
		w.start(opts)
		w.stepFor(5 * time.Minute)
		if report, _ := w.inventory.Zone(zone); w.host().Annotations[host.ProjectAnnotation] != project || report.Err != nil || w.phase() != infrav1.HostAvailable {
			t.Errorf("%s: annotations %v, error %v, phase %s", project, w.host().Annotations, report.Err, w.phase())
		}
		writes := w.written()
		if w.must(w.step()); w.written() != writes {
			t.Error("written again")
		}
	}
}

// A witness that spoke long ago says nothing of the rights of today.
func TestAnOldWitnessProvesNothing(t *testing.T) {
	w := newWorld(t)
	const other = "fr-par-3"
	for _, c := range []struct {
		age  time.Duration
		want bool
	}{{2 * w.r.InventoryInterval, true}, {2*w.r.InventoryInterval + 1, false}} {
		w.inventory.Sweep(w.ctx)
		w.clock.Step(c.age)
		if got := w.inventory.witness(other); got != c.want {
			t.Errorf("a witness of %s ago counts: %t, want %t", c.age, got, c.want)
		}
	}
}

// What the vendor is to delete in weeks, or what it may never have been asked to, is not
// expected to go: an empty list that lacks it shows lost rights.
func TestAnEmptyListProvesNoDeletionThatIsNotDue(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"scheduled for its floor": func(w *world) {
			w.cloud.Floor = true
			w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletableAt = w.clock.Now().Add(20 * time.Hour) })
			w.releaseAs(infrav1.Terminate)
			w.untilPhase(infrav1.HostRetiring)
		},
		"the call did not arrive": func(w *world) {
			w.cloud.Fault = func(c cloudtest.Call) (before, after error) {
				if c.Name == "DeleteServer" {
					return cloudtest.Err(cloud.KindUnavailable), nil
				}
				return nil, nil
			}
			w.releaseAs(infrav1.Terminate)
			w.until("its deletion is asked for", func() bool { return w.called("DeleteServer") > 0 })
		},
		"past its floor, and nobody asked": func(w *world) {
			w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletableAt = w.clock.Now().Add(-time.Hour) })
			w.until("read", func() bool { return w.host().Status.Server.DeletableAt != nil })
			w.releaseAs(infrav1.Terminate)
		},
		"due, and of no release": func(w *world) {
			w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletionScheduled, s.DeletableAt = true, w.clock.Now().Add(time.Hour) })
			w.until("read", func() bool { return w.host().Status.Server.DeletionScheduled })
			w.clock.Step(time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			prepare(w)
			w.cloud.Remove(serverID) // hidden
			w.stepFor(2 * host.GoneAfterSuspicious)
			if w.host() == nil || w.phase() == infrav1.HostGone {
				t.Error("gone on the word of an empty list")
			}
		})
	}
}

// Who gives back all that it has at the floor is left with an empty list, and with no Host.
func TestTheLastServerGoesWhenItsDeletionIsDue(t *testing.T) {
	w := inUse(t)
	w.cloud.Floor = true
	w.cloud.Change(serverID, func(s *cloud.Server) { s.DeletableAt = w.clock.Now().Add(20 * time.Hour) })
	w.releaseAs(infrav1.Terminate)
	w.untilPhase(infrav1.HostRetiring)
	w.clock.Step(20 * time.Hour)
	w.cloud.Remove(serverID)
	w.stepFor(host.GoneAfterSuspicious - 2*time.Minute)
	if w.host() == nil {
		t.Fatal("gone before ten minutes of empty lists")
	}
	w.stepFor(4 * time.Minute)
	if h := w.host(); h != nil {
		t.Errorf("phase %s after the deletion was due", h.Status.Phase)
	}
	if seen, known := w.inventory.readings.newest(zone, serverID); known {
		t.Errorf("remembered with its Host gone: %+v", seen)
	}
}

// The vendor said that it deleted the last server: its Host goes with the next lists, also where
// somebody wrote to it while the vendor was asked.
func TestTheLastServerThatIsDeletedGoesSoon(t *testing.T) {
	for name, meanwhile := range map[string]func(*world){
		"alone": func(*world) {},
		"and its Host changed meanwhile": func(w *world) {
			h := w.host()
			h.Labels["person"] = "was-here"
			w.must(w.client.Update(w.ctx, h))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := inUse(t)
			w.during("DeleteServer", func() { meanwhile(w) })
			w.releaseAs(infrav1.Terminate)
			w.until("given back", func() bool { return w.called("DeleteServer") == 1 })
			w.stepFor(2 * time.Minute)
			if h := w.host(); h != nil {
				t.Errorf("phase %s, record %+v two minutes after its deletion", h.Status.Phase, h.Spec.Record.Wipe)
			}
		})
	}
}

// Where the vendor's answer is lost, lists that stay empty prove nothing. A person is told the way out.
func TestTheLastServerWhoseDeletionIsNotKnownOfIsAPersons(t *testing.T) {
	w := inUse(t)
	w.cloud.Fault = func(c cloudtest.Call) (before, after error) {
		switch _, there := w.cloud.Server(serverID); {
		case c.Name == "DeleteServer":
			return nil, cloudtest.Err(cloud.KindUnavailable)
		case c.Name == "GetServer" && !there:
			return cloudtest.Err(cloud.KindForbidden), nil
		}
		return nil, nil
	}
	w.releaseAs(infrav1.Terminate)
	w.stepFor(2 * host.GoneAfterSuspicious)
	if w.called("DeleteServer") != 1 || w.host() == nil {
		t.Fatalf("asked %d times; host %v", w.called("DeleteServer"), w.host())
	}
	if got := w.message(host.RetiredCondition); !strings.Contains(got, "delete this Host") {
		t.Errorf("Retired says %q", got)
	}
	w.must(w.client.Delete(w.ctx, w.host()))
	w.stepFor(time.Minute)
	if w.host() != nil {
		t.Error("still there after it was deleted")
	}
}
