package scaleway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Duration is a [time.Duration] written as text, such as "2s".
type Duration time.Duration

// MarshalText writes the duration as [time.Duration.String] does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what [time.ParseDuration] does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}

// When a fault comes.
const (
	BeforeEffect = "before"
	AfterEffect  = "after"
)

// Fault spoils calls: it matches those that meet all of its conditions, and comes
// before their effect or after it. At least one of Status, Error, Garbage, Drop,
// Silence and Delay says what it does; a delay alone lets the call be answered late.
type Fault struct {
	// ID is given when the fault is armed.
	ID string `json:"id"`
	// Call is the SDK's name of the call, such as UpdateServer.
	Call string `json:"call,omitempty"`
	// Method is an HTTP method, Path a regular expression on the URL's path.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Server is a server's identifier or name, for a creation the name asked for.
	Server string `json:"server,omitempty"`
	// When is [BeforeEffect] (the default) or [AfterEffect].
	When string `json:"when,omitempty"`
	// Status and Body are the answer. Without a body it is empty, as the recorded 429 is.
	Status int             `json:"status,omitempty"`
	Body   json.RawMessage `json:"body,omitempty"`
	// Error names one of the vendor's error types, such as transient_state, and
	// fills in its status and body.
	Error string `json:"error,omitempty"`
	// Garbage is an answer that no client should believe, such as [GarbageHTML].
	Garbage string `json:"garbage,omitempty"`
	// Silence holds the connection until the client gives up.
	Silence bool `json:"silence,omitempty"`
	// Drop closes the connection. An HTTP client may repeat a dropped GET by
	// itself, and then meets the fault again or not, by its count.
	Drop bool `json:"drop,omitempty"`
	// Delay holds the call on the vendor's clock, whatever the time scale.
	Delay Duration `json:"delay,omitempty"`
	// Probability is how likely the fault meets a call that it matches, drawn from the
	// vendor's source of randomness; 0 means always.
	Probability float64 `json:"probability,omitempty"`
	// Count is how many more calls the fault meets; 0 means until it is cleared.
	Count int `json:"count,omitempty"`
	// Hits counts the calls met.
	Hits int `json:"hits"`

	path *regexp.Regexp
}

var (
	errNoAction = errors.New("a fault needs a status, an error, garbage, silence, a drop or a delay")
	errWhen     = errors.New(`when is "before" or "after"`)
	errError    = errors.New("no such error type")
	errStatus   = errors.New("status is an HTTP status of 200 or above")
	errCount    = errors.New("count cannot be negative")
	errBody     = errors.New("a body needs a status")
	errGarbage  = errors.New("no such garbage")
	errChance   = errors.New("probability is between 0 and 1")
	errCall     = errors.New("no such call")
	errMethod   = errors.New("no method that the API has")
	errOutcomes = errors.New("error, garbage, silence and a drop exclude one another")
)

// faultBook is the faults that are armed, and what they do to calls.
type faultBook struct {
	*world
	fleet  *fleet
	api    *serverAPI
	calls  []string // names of all calls that are served
	faults []*Fault
	// usedFaults were armed for so many calls, and met them.
	usedFaults []*Fault
	nextFault  int
}

// Arm adds a fault. Where several match a call, the one armed first meets it.
func (b *faultBook) Arm(f Fault) (Fault, error) {
	f.When = cmp.Or(f.When, BeforeEffect)
	if err := f.check(); err != nil {
		return Fault{}, err
	}
	if f.Call != "" && !slices.Contains(b.calls, f.Call) {
		return Fault{}, fmt.Errorf("%q: %w: there are %s", f.Call, errCall, strings.Join(b.calls, ", "))
	}
	path, err := regexp.Compile(f.Path)
	if err != nil {
		return Fault{}, fmt.Errorf("path: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nextFault++
	f.ID, f.Hits, f.path = fmt.Sprintf("fault-%d", b.nextFault), 0, path
	b.faults = append(b.faults, &f)
	return f, nil
}

func (f Fault) check() error {
	_, known := errorReply(f.Error, nil, "")
	switch {
	case f.When != BeforeEffect && f.When != AfterEffect:
		return errWhen
	case f.Method != "" && !slices.Contains(methods, strings.ToUpper(f.Method)):
		return fmt.Errorf("%q: %w: there are %s", f.Method, errMethod, strings.Join(methods, ", "))
	case f.outcomes() > 1:
		return errOutcomes
	case f.Error != "" && !known:
		return fmt.Errorf("%q: %w: there are %s", f.Error, errError, strings.Join(errorKinds, ", "))
	case f.Garbage != "" && !slices.Contains(garbageKinds, f.Garbage):
		return fmt.Errorf("%q: %w: there are %s", f.Garbage, errGarbage, strings.Join(garbageKinds, ", "))
	case f.Probability < 0 || f.Probability > 1:
		return errChance
	case f.Status != 0 && (f.Status < 200 || f.Status > 599):
		return errStatus
	case f.Body != nil && f.Status == 0:
		return errBody
	case f.Count < 0:
		return errCount
	case !f.replaces() && !f.Silence && f.Delay <= 0:
		return errNoAction
	}
	return nil
}

var methods = []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete}

// outcomes counts those of which a call has one at most.
func (f Fault) outcomes() int {
	n := 0
	for _, wanted := range []bool{f.Error != "", f.Garbage != "", f.Silence, f.Drop} {
		if wanted {
			n++
		}
	}
	return n
}

// replaces says whether the fault answers in the vendor's place.
func (f Fault) replaces() bool { return f.Status != 0 || f.Error != "" || f.Garbage != "" || f.Drop }

// Faults are the armed faults, in the order they were armed.
func (b *faultBook) Faults() []Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	return copied(b.faults)
}

// UsedFaults are the last ones that met as many calls as they were armed for.
func (b *faultBook) UsedFaults() []Fault {
	b.mu.Lock()
	defer b.mu.Unlock()
	return copied(b.usedFaults)
}

func copied(faults []*Fault) []Fault {
	out := make([]Fault, len(faults))
	for i, f := range faults {
		out[i] = *f
	}
	return out
}

// Clear removes a fault, armed or used up, or all of them when the identifier is
// empty, and says how many.
func (b *faultBook) Clear(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := len(b.faults) + len(b.usedFaults)
	meant := func(f *Fault) bool { return id == "" || f.ID == id }
	b.faults, b.usedFaults = slices.DeleteFunc(b.faults, meant), slices.DeleteFunc(b.usedFaults, meant)
	return before - len(b.faults) - len(b.usedFaults)
}

// keptFaults is how many used faults are remembered.
const keptFaults = 100

// takeFault finds the fault that meets a call and counts it.
func (b *faultBook) takeFault(r *http.Request, c *call) (Fault, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, f := range b.faults {
		if !b.matches(f, r, c) || f.Probability > 0 && b.dice.Float64() >= f.Probability {
			continue
		}
		f.Hits++
		if f.Count > 0 {
			f.Count--
			if f.Count == 0 {
				b.faults = slices.Delete(b.faults, i, i+1)
				b.usedFaults = append(b.usedFaults, f)
				b.usedFaults = b.usedFaults[max(0, len(b.usedFaults)-keptFaults):]
			}
		}
		return *f, true
	}
	return Fault{}, false
}

func (b *faultBook) matches(f *Fault, r *http.Request, c *call) bool {
	return (f.Call == "" || f.Call == c.name) &&
		(f.Method == "" || strings.EqualFold(f.Method, r.Method)) &&
		f.path.MatchString(r.URL.Path) &&
		(f.Server == "" || b.concerns(c, f.Server))
}

// concerns says whether a call is about a server, by identifier or name.
func (b *faultBook) concerns(c *call, server string) bool {
	if c.name == "CreateServer" {
		var request createRequest
		return json.Unmarshal(c.body, &request) == nil && request.Name == server
	}
	if c.id == server {
		return true
	}
	s := b.fleet.find(c.id)
	return s != nil && s.name == server
}

// meet is what happens to a call that a fault meets: it is held, and then it may
// have an answer that is not its own.
func (b *faultBook) meet(ctx context.Context, f Fault, c *call, proper reply) (reply, bool) {
	if !b.hold(ctx, f.Delay) || f.Silence && !b.hold(ctx, forever) {
		return reply{drop: true, late: true}, true
	}
	return b.faultReply(f, c, proper), f.replaces()
}

// forever is longer than any client waits.
const forever = Duration(1<<63 - 1)

// hold waits for a fault's delay on the vendor's clock, unscaled: it plays against
// client timeouts, which no time scale changes. False means that the client or the
// vendor went away first. With [Options.Inline] nobody waits.
func (b *faultBook) hold(ctx context.Context, delay Duration) bool {
	if delay <= 0 {
		return true
	}
	if b.opts.Inline {
		return time.Duration(delay) < clientPatience
	}
	var ended <-chan time.Time
	if delay != forever {
		timer := b.opts.Clock.NewTimer(time.Duration(delay))
		defer timer.Stop()
		ended = timer.C()
	}
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	case <-b.fleet.ctx.Done():
	}
	return false
}

// faultReply is a fault's answer to a call, in place of the proper one where that exists.
func (b *faultBook) faultReply(f Fault, c *call, proper reply) reply {
	if f.Drop {
		return reply{drop: true}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case f.Garbage != "":
		return b.garbage(f, c, proper)
	case f.Error != "":
		out, _ := errorReply(f.Error, b.fleet.find(c.id), c.id)
		if f.Status != 0 {
			out.status = f.Status
		}
		return out
	}
	out := reply{status: f.Status}
	if f.Body != nil {
		out.body = f.Body
	}
	return out
}

var errorKinds = []string{
	"denied_authentication", "permissions_denied", "precondition_failed", "out_of_stock", "not_found", "transient_state",
	"locked", "quotas_exceeded", "too_many_requests", "invalid_arguments", "internal",
}

// errorReply is the vendor's answer for an error type, about a server where there is one.
func errorReply(kind string, s *server, id string) (reply, bool) {
	status, deletable := StatusReinstalling, time.Time{}
	if s != nil {
		status, deletable = s.status, s.deletable
	}
	switch kind {
	case "denied_authentication":
		return deniedAuthentication(), true
	case "permissions_denied":
		return permissionsDenied("read"), true
	case "precondition_failed":
		return cannotDeleteBefore(deletable), true
	case "out_of_stock":
		return outOfStock(), true
	case "not_found":
		return notFound("server", id), true
	case "transient_state":
		return transientState(id, status), true
	case "locked":
		return locked(id), true
	case "quotas_exceeded":
		return quotasExceeded(1), true
	case "too_many_requests":
		return reply{status: http.StatusTooManyRequests}, true
	case "invalid_arguments":
		return invalidArgument("name", "unknown", ""), true
	case "internal":
		return internalError(), true
	}
	return reply{}, false
}
