package cloud

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// refusalAge is how long a refused write tells of missing rights where nobody has
// tried the same call since: a Machine that still needs it asks far more often.
const refusalAge = time.Hour

// Refusal is a write that the credentials have no right to.
type Refusal struct {
	// Call is the method's name.
	Call string
	// Since is when it was first refused.
	Since time.Time
	// Said is what was first refused, and the vendor's words.
	Said string
}

// Rights knows which writes the vendor lately refused for lack of permission: lists
// and readings work without the right to write. Its zero value works. It is safe for
// concurrent use.
type Rights struct {
	// Clock says when a call ended. Default: the real one.
	Clock clock.PassiveClock

	mu      sync.Mutex
	refused map[string]refused
}

type refused struct {
	Refusal
	last time.Time
}

// Refused are the writes that are refused, by name.
func (r *Rights) Refused() []Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Refusal
	for call, known := range r.refused {
		if r.now().Sub(known.last) >= refusalAge {
			delete(r.refused, call)
			continue
		}
		out = append(out, known.Refusal)
	}
	slices.SortFunc(out, func(a, b Refusal) int { return cmp.Compare(a.Call, b.Call) })
	return out
}

// Watch returns a Cloud whose writes are taken down here.
func (r *Rights) Watch(inner Cloud) Cloud { return &watched{Cloud: inner, rights: r} }

func (r *Rights) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock.Now()
}

// allowed notes that a call was let through.
func (r *Rights) allowed(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refused, call)
}

// forbidden notes that a call was refused.
func (r *Rights) forbidden(call string, err error) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	known, again := r.refused[call]
	if !again || now.Sub(known.last) >= refusalAge {
		known = refused{Refusal: Refusal{Call: call, Since: now, Said: Said(err)}}
	}
	known.last = now
	if r.refused == nil {
		r.refused = map[string]refused{}
	}
	r.refused[call] = known
}

// watched is a Cloud with the writes that Rights takes down; readings pass through.
type watched struct {
	Cloud
	rights *Rights
}

// told takes down how a write ended. What failed in another way than by a lack of
// permission says nothing about rights.
func (w *watched) told(call string, err error) {
	switch {
	case err == nil:
		w.rights.allowed(call)
	case IsForbidden(err):
		w.rights.forbidden(call, err)
	}
}

// toldOf is told for a write to one server. The vendor answers a write to a server
// that is gone as one without the right to it, and only a reading tells them apart.
func (w *watched) toldOf(ctx context.Context, call, zone, id string, err error) {
	if IsForbidden(err) {
		if _, _, gone := w.Cloud.GetServer(ctx, zone, id); gone != nil {
			return
		}
	}
	w.told(call, err)
}

func (w *watched) RenameServer(ctx context.Context, zone, id, name string) error {
	err := w.Cloud.RenameServer(ctx, zone, id, name)
	w.toldOf(ctx, "RenameServer", zone, id, err)
	return err
}

func (w *watched) ReinstallServer(ctx context.Context, zone, id, osID string) error {
	err := w.Cloud.ReinstallServer(ctx, zone, id, osID)
	w.toldOf(ctx, "ReinstallServer", zone, id, err)
	return err
}

func (w *watched) DeleteServer(ctx context.Context, zone, id string) (bool, error) {
	scheduled, err := w.Cloud.DeleteServer(ctx, zone, id)
	w.toldOf(ctx, "DeleteServer", zone, id, err)
	return scheduled, err
}

func (w *watched) RebootServer(ctx context.Context, zone, id string) error {
	err := w.Cloud.RebootServer(ctx, zone, id)
	w.toldOf(ctx, "RebootServer", zone, id, err)
	return err
}

func (w *watched) CreateServer(ctx context.Context, zone string, order ServerOrder) (string, error) {
	id, err := w.Cloud.CreateServer(ctx, zone, order)
	w.told("CreateServer", err)
	return id, err
}

func (w *watched) EnsureSSHKey(ctx context.Context, name, publicKey string) error {
	err := w.Cloud.EnsureSSHKey(ctx, name, publicKey)
	w.told("EnsureSSHKey", err)
	return err
}

func (w *watched) DeleteSSHKey(ctx context.Context, id string) error {
	err := w.Cloud.DeleteSSHKey(ctx, id)
	w.told("DeleteSSHKey", err)
	return err
}
