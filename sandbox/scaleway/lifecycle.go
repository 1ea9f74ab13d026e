package scaleway

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"sync"
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
	vpcSince, vpcDue        time.Time
	commitment              string
	commitmentCancelled     bool
	bandwidth               int64
	kext                    bool
	entered                 time.Time // into the status
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
	kext                    bool
}

// fleet is the vendor's servers and what happens to them as time passes: deliveries,
// reboots, reinstalls and deletions, and the hardware's part in these.
type fleet struct {
	*world
	keys    *keyring
	ctx     context.Context // bounds the hardware's work, which outlives requests
	cancel  context.CancelFunc
	wake    chan struct{}
	workers sync.WaitGroup

	servers  []*server // in the order of creation
	departed []*server // gone, but perhaps not from lists yet
	nextSeq  int
	busy     int           // servers whose hardware is at work
	waiting  []*server     // with Inline: servers with work for catchUp
	changed  chan struct{} // closed and replaced when busy falls
}

func newFleet(w *world, keys *keyring) *fleet {
	ctx, cancel := context.WithCancel(context.Background())
	return &fleet{world: w, keys: keys, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1), changed: make(chan struct{})}
}

// newServer makes a server with an address and a password, in no list yet and
// with no status. Callers hold the lock.
func (f *fleet) newServer(o order) (*server, error) {
	if o.id == "" {
		id, err := f.newID()
		if err != nil {
			return nil, err
		}
		o.id = id
	}
	password, err := f.newPassword()
	if err != nil {
		return nil, err
	}
	ip, err := f.opts.AllocateIP(o.id)
	if err != nil {
		return nil, err
	}
	f.nextSeq++
	s := &server{
		seq: f.nextSeq, id: o.id, name: o.name, project: o.project, zone: o.zone, kind: o.kind, os: o.os,
		ip: ip, password: password, created: o.created, updated: o.created, readySince: o.created,
		installs: 1, vpc: vpcDisabled, commitment: o.commitment, bandwidth: o.bandwidth, kext: o.kext,
	}
	s.commitment = cmp.Or(s.commitment, commitDay)
	s.bandwidth = cmp.Or(s.bandwidth, o.kind.Bandwidths[0])
	f.setFloor(s)
	return s, nil
}

// setFloor derives deletable_at at creation. Organisations without a floor have no commitment
// either, whatever was asked: recorded.
func (f *fleet) setFloor(s *server) {
	switch {
	case f.opts.Floor < 0:
		s.deletable, s.commitment = s.created, commitNone
	case s.commitment == commitMonthly:
		s.deletable = f.monthAfter(s.created)
	default:
		s.deletable = s.created.Add(f.scaled(f.opts.Floor))
	}
}

// monthAfter is the same day and time of the next month, at the time scale.
func (f *fleet) monthAfter(t time.Time) time.Time {
	return t.Add(f.scaled(t.AddDate(0, 1, 0).Sub(t)))
}

// enter is a change of status. Callers hold the lock.
func (f *fleet) enter(s *server, status Status, at time.Time) {
	f.remember(s, at)
	f.log.Info("server status", "server", s.id, "name", s.name, "from", string(s.status), "to", string(status))
	s.status, s.entered, s.updated = status, at, at
}

// advance applies everything that the clock has made due, and gives the time up
// to which it did. Callers hold the lock.
func (f *fleet) advance() time.Time {
	now := f.now()
	for i := 0; i < len(f.servers); {
		s := f.servers[i]
		f.advanceServer(s, now)
		if i < len(f.servers) && f.servers[i] == s { // else it was removed
			i++
		}
	}
	return now
}

func (f *fleet) advanceServer(s *server, now time.Time) {
	f.advanceTransition(s, now)
	f.touch(s, now)
	if s.vpcWanted != "" && s.status != StatusStarting && !now.Before(s.vpcDue) {
		f.remember(s, s.vpcDue)
		s.vpc, s.vpcWanted = s.vpcWanted, ""
		s.updated = latest(s.updated, s.vpcDue)
	}
	if s.deletionScheduled && !now.Before(s.deletable) {
		f.remove(s, latest(s.deletable, s.updated))
		return
	}
	for s.commitment == commitMonthly && !s.commitmentCancelled && !now.Before(s.deletable) {
		s.deletable = f.monthAfter(s.deletable)
	}
}

func (f *fleet) advanceTransition(s *server, now time.Time) {
	t := s.pending
	if t == nil || now.Before(t.due) || t.reinstall && f.knobs.Reinstall == EndsNever {
		return
	}
	if t.reinstall && f.knobs.Reinstall == EndsInError {
		t.failed, t.atDue = true, nil // nothing is installed on the erased disk
	}
	if t.atDue != nil {
		job := t.atDue
		t.atDue = nil
		f.engage(s, t, job)
	}
	if t.open > 0 {
		return
	}
	s.pending = nil
	at := latest(t.due, t.ended)
	f.remember(s, at)
	if t.failed {
		f.enter(s, StatusError, at)
		return
	}
	if t.effect != nil {
		t.effect(s)
	}
	s.readySince = at
	f.enter(s, StatusReady, at)
}

// touch moves updated_at while the vendor works on a server: recorded while it
// starts, reboots, and while its vpc_status changes.
func (f *fleet) touch(s *server, now time.Time) {
	every := f.scaled(f.opts.Timings.Touch)
	if every <= 0 {
		return
	}
	if s.status == StatusStarting || s.status == StatusRebooting {
		s.updated = latest(s.updated, s.entered.Add(now.Sub(s.entered).Truncate(every)))
	}
	if s.vpcWanted != "" {
		until := earliest(now, s.vpcDue)
		s.updated = latest(s.updated, s.vpcSince.Add(until.Sub(s.vpcSince).Truncate(every)))
	}
}

// engage has the hardware do a part of a transition. Callers hold the lock.
func (f *fleet) engage(s *server, t *transition, job func(ctx context.Context) error) {
	if f.opts.Hardware == nil {
		return
	}
	t.open++
	f.enqueue(s, func(ctx context.Context) {
		err := job(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		t.open--
		t.ended = f.now()
		if err != nil {
			t.failed = true
			f.log.Error("hardware failed", "server", s.id, "error", err)
		}
		if s.pending == t {
			f.advanceServer(s, t.ended)
		}
	})
}

// begin starts a transition. Callers hold the lock.
func (f *fleet) begin(s *server, status Status, t *transition) {
	s.pending = t
	f.enter(s, status, f.now())
	f.poke()
}

// installOf is a fresh installation of a server's image. Callers hold the lock.
func (f *fleet) installOf(s *server, password string) Install {
	return Install{
		ServerID: s.id, Name: s.name, Zone: s.zone, IP: s.ip, OS: s.os, Type: s.kind,
		Username: Username, Password: password, AuthorizedKeys: f.keys.enabledKeys(s.project),
	}
}

// install is the hardware's part at the end of a delivery or reinstall. The
// keys are those of that moment.
func (f *fleet) install(s *server, image OS, password string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		f.mu.Lock()
		fresh := f.installOf(s, password)
		fresh.OS = image
		f.mu.Unlock()
		return f.opts.Hardware.Install(ctx, fresh)
	}
}

// remove takes a server out of the vendor's world. Callers hold the lock.
func (f *fleet) remove(s *server, at time.Time) {
	f.log.Info("server removed", "server", s.id, "name", s.name)
	f.servers = slices.DeleteFunc(f.servers, func(other *server) bool { return other == s })
	s.pending = nil
	if f.knobs.ListLag > 0 {
		s.removed = at
		f.departed = append(f.departed, s)
	}
	if f.opts.Hardware == nil {
		f.releaseIP(s)
		return
	}
	f.enqueue(s, func(ctx context.Context) {
		f.opts.Hardware.Remove(ctx, s.id)
		f.releaseIP(s)
	})
}

func (f *fleet) releaseIP(s *server) {
	if f.opts.ReleaseIP != nil {
		f.opts.ReleaseIP(s.id, s.ip)
	}
}

func (f *fleet) find(id string) *server {
	for _, s := range f.servers {
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

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
