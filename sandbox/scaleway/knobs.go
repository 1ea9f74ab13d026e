package scaleway

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// SealedMode says when answers hide credentials.
type SealedMode string

const (
	// SealWrites puts "<sealed>" into the answers to POST, PATCH, reboot and
	// reinstall; GET and list are clear. All recordings since February 2025. The default.
	SealWrites SealedMode = ""
	// SealWindow seals every answer while a server is on its way to ready, and for
	// [Timings.SealedWindow] after: what one report says of Tahoe hosts.
	SealWindow SealedMode = "window"
	// SealReads leaves the credentials of every answer empty but the creation's, as one
	// report has it.
	SealReads SealedMode = "empty-on-read"
	// SealNever never seals, as before February 2025.
	SealNever SealedMode = "clear"
)

// How a reinstall ends, and a diagnostic.
const (
	// EndsWell is the default.
	EndsWell = ""
	// EndsInError takes a reinstalled server to status error, its disk erased, or a
	// diagnostic to its error.
	EndsInError = "error"
	// EndsNever leaves it on its way until the knob is turned again.
	EndsNever = "stuck"
	// Unavailable, for diagnostics, answers 503 to both calls.
	Unavailable = "unavailable"
)

// Knobs are behaviours of the vendor that can be turned while it runs. The zero
// value behaves as recorded.
type Knobs struct {
	// ListLag is how long creations, changes and deletions take to show in the list of
	// servers, on the vendor's clock and whatever the time scale.
	ListLag Duration `json:"list_lag"`
	// MaxPageSize caps the page size that a client asks for. Default 100, as documented.
	MaxPageSize int `json:"max_page_size"`
	// GoneAs is the status for a server that is not there: 403 (the default,
	// recorded) or 404.
	GoneAs int `json:"gone_as"`
	// Sealed says which answers hide credentials.
	Sealed SealedMode `json:"sealed"`
	// Reinstall is how reinstalls end: [EndsWell], [EndsInError] or [EndsNever].
	Reinstall string `json:"reinstall"`
	// Diagnostics is how connectivity diagnostics end, or [Unavailable].
	Diagnostics string `json:"diagnostics"`
	// UnknownStatus is shown as the status of every server, for one that clients have
	// never heard of. One server's is set with [Vendor.SetStatus].
	UnknownStatus Status `json:"unknown_status"`
}

var errKnob = errors.New("no such setting")

func (k Knobs) check() error {
	for _, knob := range []struct {
		name  string
		value any
		fine  bool
	}{
		{"list_lag", k.ListLag, k.ListLag >= 0},
		{"max_page_size", k.MaxPageSize, k.MaxPageSize >= 0 && k.MaxPageSize <= maxPageSize},
		{"gone_as", k.GoneAs, slices.Contains([]int{0, http.StatusForbidden, http.StatusNotFound}, k.GoneAs)},
		{"sealed", k.Sealed, slices.Contains([]SealedMode{SealWrites, SealWindow, SealReads, SealNever}, k.Sealed)},
		{"reinstall", k.Reinstall, slices.Contains([]string{EndsWell, EndsInError, EndsNever}, k.Reinstall)},
		{"diagnostics", k.Diagnostics, slices.Contains([]string{EndsWell, EndsInError, EndsNever, Unavailable}, k.Diagnostics)},
	} {
		if !knob.fine {
			return fmt.Errorf("%s: %v: %w", knob.name, knob.value, errKnob)
		}
	}
	return nil
}

// Knobs are the vendor's present ones.
func (v *Vendor) Knobs() Knobs {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.knobs
}

// Turn changes knobs. What is wrong changes none.
func (v *Vendor) Turn(change func(*Knobs)) error {
	v.catchUp()
	defer v.catchUp()
	v.mu.Lock()
	defer v.mu.Unlock()
	// What was due before the turn still goes the old way.
	v.advance()
	turned := v.knobs
	change(&turned)
	if err := turned.check(); err != nil {
		return fmt.Errorf("turning a knob: %w", err)
	}
	v.knobs = turned
	v.poke()
	return nil
}

// gone is the answer for a server that is not there.
func (a *serverAPI) gone(action, id string) reply {
	if a.knobs.GoneAs == http.StatusNotFound {
		return notFound("server", id)
	}
	return permissionsDenied(action)
}

// SetQuota limits how many servers of a type an organisation may have in a zone:
// one order more is answered 403 quotas_exceeded. A negative limit is none, the default.
func (a *serverAPI) SetQuota(typeName string, limit int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit < 0 {
		delete(a.quotas, typeName)
		return
	}
	a.quotas[typeName] = limit
}

// overQuota says whether one server more of a type would be too many.
func (a *serverAPI) overQuota(kind ServerType, zone string) (limit int, over bool) {
	limit, limited := a.quotas[kind.Name]
	if !limited {
		return 0, false
	}
	count := 0
	for _, s := range a.fleet.servers {
		if s.kind.Name == kind.Name && s.zone == zone {
			count++
		}
	}
	return limit, count >= limit
}
