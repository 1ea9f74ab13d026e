package scaleway

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Health is what a diagnostic finds out about a Mac.
type Health struct {
	// Alive is whether it runs at all.
	Alive bool
	// Agent and MDM are the vendor's own software on it.
	Agent, MDM bool
	// SSH and VNC are whether the ports answer.
	SSH, VNC bool
}

// WellHealth is that of a Mac in order.
func WellHealth() Health { return Health{Alive: true, Agent: true, MDM: true, SSH: true, VNC: true} }

// Powered is [Hardware] with a switch that the vendor's API doesn't have: somebody
// pulls the plug, and the vendor goes on showing the server as ready.
type Powered interface {
	// Power turns a server's Mac on or off; found says that there is one.
	Power(ctx context.Context, serverID string, on bool) (found bool, err error)
}

// Examiner is [Hardware] that can be asked for a Mac's health. Without it, a Mac
// is well as long as its server is neither in error nor on its way to ready.
type Examiner interface {
	// Examine comes as any other call to the hardware, after those before it.
	Examine(ctx context.Context, serverID string) Health
}

// The states of a diagnostic, as the SDK has them.
const (
	diagnosticProcessing = "processing"
	diagnosticError      = "error"
	diagnosticCompleted  = "completed"
)

// keptDiagnostics bounds how many are remembered.
const keptDiagnostics = 1000

// diagnostic is one examination; all of its behaviour is INF, from the SDK's types.
type diagnostic struct {
	id, serverID, zone string
	due                time.Time
	open               bool // the hardware has not answered yet
	found              Health
	end                *diagnosticBody // once it is over
}

type diagnosticBody struct {
	ID        string      `json:"id"`
	Status    string      `json:"status"`
	IsHealthy bool        `json:"is_healthy"`
	Health    *healthBody `json:"health_details"`
	Actions   []string    `json:"supported_actions"`
	Error     string      `json:"error_message"`
	Zone      string      `json:"zone"`
}

type healthBody struct {
	LastCheckin *date `json:"last_checkin_date"`
	Alive       bool  `json:"is_server_alive"`
	Agent       bool  `json:"is_agent_alive"`
	MDM         bool  `json:"is_mdm_alive"`
	SSH         bool  `json:"is_ssh_port_up"`
	VNC         bool  `json:"is_vnc_port_up"`
}

// examinations are the connectivity diagnostics.
type examinations struct {
	*world
	fleet       *fleet
	servers     *serverAPI
	diagnostics []*diagnostic // oldest first
}

func (e *examinations) startDiagnostic(c *call) reply {
	var request struct {
		ServerID string `json:"server_id"`
	}
	if e.knobs.Diagnostics == Unavailable {
		return unavailable()
	}
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	c.id = request.ServerID
	return e.servers.withServer("write", e.examine)(c)
}

func (e *examinations) examine(_ *call, s *server) reply {
	id, err := e.newID()
	if err != nil {
		e.log.Error("diagnostic failed", "server", s.id, "error", err)
		return internalError()
	}
	d := &diagnostic{
		id: id, serverID: s.id, zone: s.zone, found: WellHealth(),
		due: e.now().Add(e.scaled(e.opts.Timings.Diagnostic)),
	}
	if len(e.diagnostics) >= keptDiagnostics {
		e.diagnostics = slices.Delete(e.diagnostics, 0, 1)
	}
	e.diagnostics = append(e.diagnostics, d)
	if examiner, able := e.opts.Hardware.(Examiner); able {
		d.open = true
		e.fleet.enqueue(s, func(ctx context.Context) {
			found := examiner.Examine(ctx, d.serverID)
			e.mu.Lock()
			defer e.mu.Unlock()
			d.found, d.open = found, false
		})
	}
	return ok(map[string]string{"diagnostic_id": id})
}

func (e *examinations) getDiagnostic(c *call) reply {
	if e.knobs.Diagnostics == Unavailable {
		return unavailable()
	}
	if uuid.Validate(c.id) != nil {
		return notUUID("diagnostic_id")
	}
	at := slices.IndexFunc(e.diagnostics, func(d *diagnostic) bool { return d.id == c.id && d.zone == c.zone })
	if at < 0 {
		return notFound("connectivity_diagnostic", c.id)
	}
	d := e.diagnostics[at]
	body := diagnosticBody{ID: d.id, Status: diagnosticProcessing, Actions: []string{}, Zone: d.zone}
	switch {
	case d.end != nil:
		return ok(d.end)
	case e.now().Before(d.due) || d.open || e.knobs.Diagnostics == EndsNever:
		return ok(body)
	case e.knobs.Diagnostics == EndsInError:
		body.Status, body.Error = diagnosticError, "the diagnostic could not be run"
	default:
		e.conclude(d, &body)
	}
	d.end = &body
	return ok(body)
}

// conclude is what a diagnostic says at its end. A server in motion is not well,
// whatever its Mac said; what can be done about one is what its status allows.
func (e *examinations) conclude(d *diagnostic, body *diagnosticBody) {
	body.Status = diagnosticCompleted
	s, found := e.fleet.find(d.serverID), d.found
	if s == nil || s.status != StatusReady {
		found = Health{}
	}
	body.IsHealthy = found == WellHealth()
	body.Health = &healthBody{Alive: found.Alive, Agent: found.Agent, MDM: found.MDM, SSH: found.SSH, VNC: found.VNC}
	if s == nil {
		return
	}
	checkin := date(s.readySince)
	if found.Agent {
		checkin = date(e.now())
	}
	body.Health.LastCheckin = &checkin
	if body.IsHealthy {
		return
	}
	for _, action := range []struct {
		op   Operation
		name string
	}{{OpReboot, "reboot_server"}, {OpReinstall, "reinstall_server"}} {
		if _, refused := e.servers.refusal(action.op, s); !refused {
			body.Actions = append(body.Actions, action.name)
		}
	}
}
