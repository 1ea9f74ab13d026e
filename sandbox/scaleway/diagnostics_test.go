package scaleway_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// patients are Macs that can be examined.
type patients struct {
	*macs
	mu     sync.Mutex
	health scaleway.Health
}

func (p *patients) Examine(context.Context, string) scaleway.Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.health
}

func (p *patients) become(h scaleway.Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.health = h
}

func (w *world) diagnose(id string) string {
	w.t.Helper()
	started, err := w.macs.StartConnectivityDiagnostic(&applesilicon.StartConnectivityDiagnosticRequest{ServerID: id})
	must(w.t, err)
	return started.DiagnosticID
}

func (w *world) diagnosis(id string) *applesilicon.ConnectivityDiagnostic {
	w.t.Helper()
	d, err := w.macs.GetConnectivityDiagnostic(&applesilicon.GetConnectivityDiagnosticRequest{DiagnosticID: id})
	must(w.t, err)
	return d
}

// concluded runs a diagnostic to its end.
func (w *world) concluded(id string) *applesilicon.ConnectivityDiagnostic {
	w.t.Helper()
	diagnostic := w.diagnose(id)
	w.settle()
	w.clock.Step(30 * time.Second)
	return w.diagnosis(diagnostic)
}

func TestDiagnostics(t *testing.T) {
	hardware := &patients{macs: newQuietMacs(), health: scaleway.WellHealth()}
	w := newWorld(t, scaleway.Options{Hardware: hardware})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})

	running := w.diagnose(s.ID)
	w.clock.Step(29 * time.Second)
	if d := w.diagnosis(running); d.Status != applesilicon.ConnectivityDiagnosticDiagnosticStatusProcessing || d.IsHealthy || d.HealthDetails != nil {
		t.Errorf("too early: %+v", d)
	}
	both := []applesilicon.ConnectivityDiagnosticActionType{
		applesilicon.ConnectivityDiagnosticActionTypeRebootServer, applesilicon.ConnectivityDiagnosticActionTypeReinstallServer,
	}
	none := []applesilicon.ConnectivityDiagnosticActionType{}
	for _, test := range []struct {
		name    string
		before  func()
		health  scaleway.Health
		healthy bool
		alive   bool
		actions []applesilicon.ConnectivityDiagnosticActionType
	}{
		{"well", func() {}, scaleway.WellHealth(), true, true, none},
		{"no SSH", func() {}, scaleway.Health{Alive: true, Agent: true, MDM: true, VNC: true}, false, true, both},
		{"dead", func() {}, scaleway.Health{}, false, false, both},
		{"rebooting", func() { must(t, w.reboot(s.ID)) }, scaleway.WellHealth(), false, false, none},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.before()
			hardware.become(test.health)
			d := w.concluded(s.ID)
			if d.Status != applesilicon.ConnectivityDiagnosticDiagnosticStatusCompleted || d.IsHealthy != test.healthy ||
				d.HealthDetails.IsServerAlive != test.alive || d.HealthDetails.LastCheckinDate == nil || d.Zone != zone {
				t.Errorf("got %+v, %+v", d, d.HealthDetails)
			}
			if diff := cmp.Diff(test.actions, d.SupportedActions); diff != "" {
				t.Error(diff)
			}
		})
	}
	w.Remove(s.ID)
	_, err := w.macs.StartConnectivityDiagnostic(&applesilicon.StartConnectivityDiagnosticRequest{ServerID: s.ID})
	_ = as[*scw.PermissionsDeniedError](t, err)
	_, err = w.macs.GetConnectivityDiagnostic(&applesilicon.GetConnectivityDiagnosticRequest{DiagnosticID: nobody})
	_ = as[*scw.ResourceNotFoundError](t, err)
}

// What was found stays found.
func TestDiagnosisDoesNotChange(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	id := w.diagnose(s.ID)
	w.clock.Step(time.Minute)
	before := w.diagnosis(id)
	w.SetStatus(s.ID, scaleway.StatusError)
	if diff := cmp.Diff(before, w.diagnosis(id)); diff != "" {
		t.Error(diff)
	}
	if d := w.concluded(s.ID); d.IsHealthy {
		t.Error("a server in error is well")
	}
}

func TestDiagnosticsThatFail(t *testing.T) {
	w := newWorld(t, scaleway.Options{Knobs: scaleway.Knobs{Diagnostics: scaleway.EndsInError}})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	if d := w.concluded(s.ID); d.Status != applesilicon.ConnectivityDiagnosticDiagnosticStatusError || d.ErrorMessage == "" {
		t.Errorf("got %+v", d)
	}
	w.turn(func(k *scaleway.Knobs) { k.Diagnostics = scaleway.EndsNever })
	id := w.diagnose(s.ID)
	w.clock.Step(time.Hour)
	if d := w.diagnosis(id); d.Status != applesilicon.ConnectivityDiagnosticDiagnosticStatusProcessing {
		t.Errorf("got %+v", d)
	}
	w.turn(func(k *scaleway.Knobs) { k.Diagnostics = scaleway.Unavailable })
	_, err := w.macs.StartConnectivityDiagnostic(&applesilicon.StartConnectivityDiagnosticRequest{ServerID: s.ID})
	if failed := as[*scw.ResponseError](t, err); failed.StatusCode != 503 {
		t.Errorf("status %d", failed.StatusCode)
	}
	_, err = w.macs.GetConnectivityDiagnostic(&applesilicon.GetConnectivityDiagnosticRequest{DiagnosticID: id})
	_ = as[*scw.ResponseError](t, err)
}
