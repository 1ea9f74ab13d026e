package scaleway

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// vpc_status values.
const (
	vpcEnabled  = "vpc_enabled"
	vpcUpdating = "vpc_updating"
	vpcDisabled = "vpc_disabled"
)

// Commitment types.
const (
	commitDay     = "duration_24h"
	commitMonthly = "renewed_monthly"
	commitNone    = "none"
)

// server is one server's state; the vendor's lock guards it.
type server struct {
	id, name, project, zone string
	kind                    ServerType
	os                      OS
	ip                      netip.Addr
	password                string
	status                  Status
	created, updated        time.Time
	readySince              time.Time
	deletable               time.Time
	deletionScheduled       bool
	delivered               bool
	installs                int
	vpc, vpcWanted          string
	vpcDue                  time.Time
	commitment              string
	commitmentCancelled     bool
	bandwidth               int64
	pending                 *transition

	seq     int
	ordered time.Time // zero for one from before the sandbox
	removed time.Time
	past    []image

	work    []work
	working bool
}

// transition is a way to ready. It ends when its time has come and its hardware
// work is done.
type transition struct {
	due time.Time
	// reinstall is a transition that [Knobs.Reinstall] can spoil.
	reinstall bool
	// atDue is hardware work begun when the time has come; nil when there is none left.
	atDue func(ctx context.Context) error
	// effect is applied at the end of a transition that succeeded.
	effect func(*server)
	// open counts hardware work not yet done.
	open   int
	ended  time.Time // of the last hardware work
	failed bool
}

// order is what a new server is made from.
type order struct {
	id, name, project, zone string
	kind                    ServerType
	os                      OS
	created                 time.Time
	commitment              string
	bandwidth               int64
}

// newServer makes a server with an address and a password, in no list yet and
// with no status. Callers hold the lock.
func (v *Vendor) newServer(o order) (*server, error) {
	if o.id == "" {
		id, err := v.newID()
		if err != nil {
			return nil, err
		}
		o.id = id
	}
	password, err := v.newPassword()
	if err != nil {
		return nil, err
	}
	ip, err := v.opts.AllocateIP(o.id)
	if err != nil {
		return nil, err
	}
	v.nextSeq++
	s := &server{
		seq: v.nextSeq, id: o.id, name: o.name, project: o.project, zone: o.zone, kind: o.kind, os: o.os,
		ip: ip, password: password, created: o.created, updated: o.created, readySince: o.created,
		installs: 1, vpc: vpcDisabled, commitment: o.commitment, bandwidth: o.bandwidth,
	}
	orDefault(&s.commitment, commitDay)
	orDefault(&s.bandwidth, o.kind.Bandwidths[0])
	v.setFloor(s)
	return s, nil
}

// setFloor derives deletable_at at creation. Organisations without a floor have no commitment
// either, whatever was asked: recorded.
func (v *Vendor) setFloor(s *server) {
	switch {
	case v.opts.Floor < 0:
		s.deletable, s.commitment = s.created, commitNone
	case s.commitment == commitMonthly:
		s.deletable = v.monthAfter(s.created)
	default:
		s.deletable = s.created.Add(v.scaled(v.opts.Floor))
	}
}

// monthAfter is the same day and time of the next month, at the time scale.
func (v *Vendor) monthAfter(t time.Time) time.Time {
	return t.Add(v.scaled(t.AddDate(0, 1, 0).Sub(t)))
}

// enter is a change of status. Callers hold the lock.
func (v *Vendor) enter(s *server, status Status, at time.Time) {
	v.remember(s, at)
	v.log.Info("server status", "server", s.id, "name", s.name, "from", string(s.status), "to", string(status))
	s.status, s.updated = status, at
}

// advance applies everything that the clock has made due, and gives the time up
// to which it did. Callers hold the lock.
func (v *Vendor) advance() time.Time {
	now := v.now()
	for i := 0; i < len(v.servers); {
		s := v.servers[i]
		v.advanceServer(s, now)
		if i < len(v.servers) && v.servers[i] == s { // else it was removed
			i++
		}
	}
	return now
}

func (v *Vendor) advanceServer(s *server, now time.Time) {
	v.advanceTransition(s, now)
	v.touchStarting(s, now)
	if s.vpcWanted != "" && s.status != StatusStarting && !now.Before(s.vpcDue) {
		v.remember(s, s.vpcDue)
		s.vpc, s.vpcWanted = s.vpcWanted, ""
		s.updated = latest(s.updated, s.vpcDue)
	}
	if s.deletionScheduled && !now.Before(s.deletable) {
		v.remove(s, latest(s.deletable, s.updated))
		return
	}
	for s.commitment == commitMonthly && !s.commitmentCancelled && !now.Before(s.deletable) {
		s.deletable = v.monthAfter(s.deletable)
	}
}

func (v *Vendor) advanceTransition(s *server, now time.Time) {
	t := s.pending
	if t == nil || now.Before(t.due) || t.reinstall && v.knobs.Reinstall == EndsNever {
		return
	}
	if t.reinstall && v.knobs.Reinstall == EndsInError {
		t.failed, t.atDue = true, nil // nothing is installed on the erased disk
	}
	if t.atDue != nil {
		job := t.atDue
		t.atDue = nil
		v.engage(s, t, job)
	}
	if t.open > 0 {
		return
	}
	s.pending = nil
	at := latest(t.due, t.ended)
	v.remember(s, at)
	if t.failed {
		v.enter(s, StatusError, at)
		return
	}
	if t.effect != nil {
		t.effect(s)
	}
	s.readySince = at
	v.enter(s, StatusReady, at)
}

// touchStarting moves updated_at while a server is starting.
func (v *Vendor) touchStarting(s *server, now time.Time) {
	every := v.scaled(v.opts.Timings.StartingTouch)
	if s.status != StatusStarting || every <= 0 {
		return
	}
	s.updated = s.created.Add(now.Sub(s.created).Truncate(every))
}

// engage has the hardware do a part of a transition. Callers hold the lock.
func (v *Vendor) engage(s *server, t *transition, job func(ctx context.Context) error) {
	if v.opts.Hardware == nil {
		return
	}
	t.open++
	v.enqueue(s, func(ctx context.Context) {
		err := job(ctx)
		v.mu.Lock()
		defer v.mu.Unlock()
		t.open--
		t.ended = v.now()
		if err != nil {
			t.failed = true
			v.log.Error("hardware failed", "server", s.id, "error", err)
		}
		if s.pending == t {
			v.advanceServer(s, t.ended)
		}
	})
}

// begin starts a transition. Callers hold the lock.
func (v *Vendor) begin(s *server, status Status, t *transition) {
	s.pending = t
	v.enter(s, status, v.now())
	v.poke()
}

// installOf is a fresh installation of a server's image. Callers hold the lock.
func (v *Vendor) installOf(s *server, password string) Install {
	return Install{
		ServerID: s.id, Name: s.name, Zone: s.zone, IP: s.ip, OS: s.os, Type: s.kind,
		Username: Username, Password: password, AuthorizedKeys: v.enabledKeys(s.project),
	}
}

// install is the hardware's part at the end of a delivery or reinstall. The
// keys are those of that moment.
func (v *Vendor) install(s *server, image OS, password string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		v.mu.Lock()
		fresh := v.installOf(s, password)
		fresh.OS = image
		v.mu.Unlock()
		return v.opts.Hardware.Install(ctx, fresh)
	}
}

// remove takes a server out of the vendor's world. Callers hold the lock.
func (v *Vendor) remove(s *server, at time.Time) {
	v.log.Info("server removed", "server", s.id, "name", s.name)
	v.servers = slices.DeleteFunc(v.servers, func(other *server) bool { return other == s })
	s.pending = nil
	if v.knobs.ListLag > 0 {
		s.removed = at
		v.departed = append(v.departed, s)
	}
	if v.opts.Hardware == nil {
		v.releaseIP(s)
		return
	}
	v.enqueue(s, func(ctx context.Context) {
		v.opts.Hardware.Remove(ctx, s.id)
		v.releaseIP(s)
	})
}

func (v *Vendor) releaseIP(s *server) {
	if v.opts.ReleaseIP != nil {
		v.opts.ReleaseIP(s.id, s.ip)
	}
}

func (v *Vendor) find(id string) *server {
	for _, s := range v.servers {
		if s.id == id {
			return s
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
