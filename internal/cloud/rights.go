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

// RecordRefusals returns a Cloud whose refused writes are recorded here.
func (r *Rights) RecordRefusals(inner Cloud) Cloud {
	return &refusalRecorder{Cloud: inner, rights: r}
}

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

// refusalRecorder is a Cloud whose refused writes Rights records; readings pass through.
type refusalRecorder struct {
	Cloud
	rights *Rights
}

// told records how a write ended. What failed in another way than by a lack of
// permission says nothing about rights.
func (r *refusalRecorder) told(call string, err error) {
	switch {
	case err == nil:
		r.rights.allowed(call)
	case IsForbidden(err):
		r.rights.forbidden(call, err)
	}
}

// toldOf is told for a write to one server. The vendor answers a write to a server
// that is gone as one without the right to it, and only a reading tells them apart.
func (r *refusalRecorder) toldOf(ctx context.Context, call, zone, id string, err error) {
	if IsForbidden(err) {
		if _, _, gone := r.Cloud.GetServer(ctx, zone, id); gone != nil {
			return
		}
	}
	r.told(call, err)
}

func (r *refusalRecorder) RenameServer(ctx context.Context, zone, id, name string) error {
	err := r.Cloud.RenameServer(ctx, zone, id, name)
	r.toldOf(ctx, "RenameServer", zone, id, err)
	return err
}

func (r *refusalRecorder) ReinstallServer(ctx context.Context, zone, id, osID string) error {
	err := r.Cloud.ReinstallServer(ctx, zone, id, osID)
	r.toldOf(ctx, "ReinstallServer", zone, id, err)
	return err
}

func (r *refusalRecorder) DeleteServer(ctx context.Context, zone, id string) (bool, error) {
	scheduled, err := r.Cloud.DeleteServer(ctx, zone, id)
	r.toldOf(ctx, "DeleteServer", zone, id, err)
	return scheduled, err
}

func (r *refusalRecorder) RebootServer(ctx context.Context, zone, id string) error {
	err := r.Cloud.RebootServer(ctx, zone, id)
	r.toldOf(ctx, "RebootServer", zone, id, err)
	return err
}

func (r *refusalRecorder) CreateServer(ctx context.Context, zone string, order ServerOrder) (string, error) {
	id, err := r.Cloud.CreateServer(ctx, zone, order)
	r.told("CreateServer", err)
	return id, err
}

func (r *refusalRecorder) EnsureSSHKey(ctx context.Context, name, publicKey string) error {
	err := r.Cloud.EnsureSSHKey(ctx, name, publicKey)
	r.told("EnsureSSHKey", err)
	return err
}

func (r *refusalRecorder) DeleteSSHKey(ctx context.Context, id string) error {
	err := r.Cloud.DeleteSSHKey(ctx, id)
	r.told("DeleteSSHKey", err)
	return err
}
