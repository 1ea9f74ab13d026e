package scaleway

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// serverAPI is the calls about servers: what they ask is checked, then done in the fleet.
type serverAPI struct {
	*world
	fleet  *fleet
	shop   *shop
	rules  map[ruleKey]Verdict
	quotas map[string]int // by type
}

// withServer gives a handler its server, or answers as the vendor does for one
// that is gone or never was. Action is what permissions_denied names.
func (a *serverAPI) withServer(action string, handle func(*call, *server) reply) handler {
	return func(c *call) reply {
		if uuid.Validate(c.id) != nil {
			return notUUID("server_id") // INF
		}
		s := a.fleet.find(c.id)
		if s == nil || s.zone != c.zone {
			return a.gone(action, c.id)
		}
		return handle(c, s)
	}
}

// sealedRead says whether even a GET hides the credentials.
func (a *serverAPI) sealedRead(s *server) bool {
	if a.knobs.Sealed != SealWindow {
		return false
	}
	switch s.status {
	case StatusStarting, StatusRebooting, StatusReinstalling:
		return true
	}
	return a.now().Before(s.readySince.Add(a.scaled(a.opts.Timings.SealedWindow)))
}

// read renders a server for GET and list, write for the answers to writes.
func (a *serverAPI) read(s *server) serverBody {
	return a.emptied(a.render(s, a.sealedRead(s)))
}

func (a *serverAPI) written(s *server) reply {
	return ok(a.emptied(a.render(s, a.knobs.Sealed == SealWrites || a.sealedRead(s))))
}

// emptied takes the credentials out in mode [SealReads].
func (a *serverAPI) emptied(body serverBody) serverBody {
	if a.knobs.Sealed == SealReads {
		body.SudoPassword, body.VNCURL = "", ""
	}
	return body
}

func (a *serverAPI) getServer(_ *call, s *server) reply { return ok(a.read(s)) }

func (a *serverAPI) listServers(c *call) reply {
	project, organization := c.query.Get("project_id"), c.query.Get("organization_id")
	matching := slices.DeleteFunc(a.fleet.listed(), func(s *server) bool {
		return s.zone != c.zone || project != "" && s.project != project ||
			organization != "" && organization != a.opts.OrganizationID
	})
	refused := sorted(c, matching, map[string]func(a, b *server) int{"created_at": olderFirst})
	if refused != nil {
		return *refused
	}
	shown, refused := page(a.world, c, matching)
	if refused != nil {
		return *refused
	}
	list := serverListBody{Servers: []serverBody{}, TotalCount: len(matching)}
	for _, s := range shown {
		list.Servers = append(list.Servers, a.read(s))
	}
	return ok(list)
}

type createRequest struct {
	Name       string  `json:"name"`
	ProjectID  string  `json:"project_id"`
	Type       string  `json:"type"`
	OSID       *string `json:"os_id"`
	EnableVPC  bool    `json:"enable_vpc"`
	Commitment string  `json:"commitment_type"`
	Bandwidth  int64   `json:"public_bandwidth_bps"`
	EnableKext bool    `json:"enable_kext"`
	runnersWanted
}

// runnersWanted are the wishes for runners, which are not simulated: only that
// there be none can be made true.
type runnersWanted struct {
	Applied *struct {
		IDs []string `json:"runner_configuration_ids"`
	} `json:"applied_runner_configurations"`
}

func (w runnersWanted) check(c *call) *reply {
	if w.Applied == nil || len(w.Applied.IDs) == 0 {
		return nil
	}
	refused := notServed(c.name + " with runner_configuration_ids in applied_runner_configurations")
	return &refused
}

func (a *serverAPI) createServer(c *call) reply {
	var request createRequest
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	if refused := request.check(c); refused != nil {
		return *refused
	}
	wanted, refused := a.checkOrder(c, request)
	if refused != nil {
		return *refused
	}
	s, err := a.fleet.newServer(wanted)
	if err != nil {
		a.log.Error("order failed", "name", request.Name, "error", err)
		return internalError()
	}
	delivery := &transition{due: s.created.Add(a.deliveryTime(s))}
	delivery.atDue = a.fleet.install(s, s.os, s.password)
	delivery.effect = func(s *server) { s.delivered = true }
	if request.EnableVPC {
		s.vpc = vpcUpdating
		delivery.effect = func(s *server) { s.delivered, s.vpc = true, vpcEnabled }
	}
	a.fleet.servers = append(a.fleet.servers, s)
	s.ordered = s.created
	a.fleet.begin(s, StatusStarting, delivery)
	c.id = s.id
	if a.knobs.Sealed == SealReads {
		return ok(a.render(s, false))
	}
	return a.written(s)
}

// checkOrder reads an order, or refuses it. Except for the stock, the refusals are INF.
func (a *serverAPI) checkOrder(c *call, request createRequest) (order, *reply) {
	refuse := func(r reply) (order, *reply) { return order{}, &r }
	if uuid.Validate(request.ProjectID) != nil {
		return refuse(notUUID("project_id"))
	}
	kind, found := a.shop.catalogue.serverType(request.Type, c.zone)
	if !found {
		return refuse(invalidArgument("type", "constraint", "server type is not available in this zone"))
	}
	image, found := a.shop.catalogue.osByName(kind.DefaultOS)
	if request.OSID != nil {
		image, found = a.shop.catalogue.osByID(*request.OSID)
	}
	if !found || !slices.Contains(image.Types, kind.Name) {
		return refuse(invalidArgument("os_id", "constraint", "os is not available for this server type"))
	}
	if request.Bandwidth != 0 && !slices.Contains(kind.Bandwidths, request.Bandwidth) {
		return refuse(invalidArgument("public_bandwidth_bps", "constraint", "bandwidth is not supported by this server type"))
	}
	if !slices.Contains([]string{"", commitDay, commitMonthly, commitNone}, request.Commitment) {
		return refuse(invalidArgument("commitment_type", "constraint", "commitment is not available"))
	}
	if limit, over := a.overQuota(kind, c.zone); over {
		return refuse(quotasExceeded(limit))
	}
	if kind.Stock == NoStock {
		return refuse(outOfStock())
	}
	return order{
		name: request.Name, project: request.ProjectID, zone: c.zone, kind: kind, os: image,
		created: a.now(), commitment: request.Commitment, bandwidth: request.Bandwidth,
		kext: request.EnableKext,
	}, nil
}

func (a *serverAPI) deliveryTime(s *server) time.Duration {
	d := s.kind.Delivery
	if s.os.Name != s.kind.DefaultOS {
		d += a.opts.Timings.OtherOS
	}
	return a.scaled(d)
}

type updateRequest struct {
	Name             *string `json:"name"`
	ScheduleDeletion *bool   `json:"schedule_deletion"`
	EnableVPC        *bool   `json:"enable_vpc"`
	Commitment       *struct {
		Type string `json:"commitment_type"`
	} `json:"commitment_type"`
	Bandwidth *int64 `json:"public_bandwidth_bps"`
	runnersWanted
}

func (a *serverAPI) updateServer(c *call, s *server) reply {
	var request updateRequest
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	if refused := request.check(c); refused != nil {
		return *refused
	}
	op := OpUpdate
	if request.Name != nil {
		op = OpRename
	}
	if refused, stop := a.refusal(op, s); stop {
		return refused
	}
	if refused := a.checkUpdate(s, request); refused != nil {
		return *refused
	}
	a.fleet.applyUpdate(s, request)
	return a.written(s)
}

func (a *serverAPI) checkUpdate(s *server, request updateRequest) *reply {
	refuse := func(r reply) *reply { return &r }
	if request.Bandwidth != nil && !slices.Contains(s.kind.Bandwidths, *request.Bandwidth) {
		return refuse(invalidArgument("public_bandwidth_bps", "constraint", "bandwidth is not supported by this server type"))
	}
	if request.Commitment == nil {
		return nil
	}
	switch wanted := request.Commitment.Type; {
	case wanted == commitDay && s.commitment == commitMonthly:
		// Known from a message in the vendor's own tests; its shape is INF.
		return refuse(preconditionFailed("can not commit from monthly to hourly changes to the server"))
	case wanted != commitDay && wanted != commitMonthly && wanted != commitNone:
		return refuse(invalidArgument("commitment_type", "constraint", "commitment is not available"))
	}
	return nil
}

// applyUpdate makes every wish of a PATCH true. Even an empty one moves
// updated_at, and none moves the status: recorded.
func (f *fleet) applyUpdate(s *server, request updateRequest) {
	now := f.now()
	f.remember(s, now)
	s.updated = now
	if request.Name != nil {
		f.log.Info("server renamed", "server", s.id, "from", s.name, "to", *request.Name)
		s.name = *request.Name
	}
	if request.Bandwidth != nil {
		s.bandwidth = *request.Bandwidth
	}
	if request.EnableVPC != nil {
		f.setVPC(s, *request.EnableVPC)
	}
	if request.Commitment != nil {
		f.commit(s, request.Commitment.Type)
	}
	if request.ScheduleDeletion != nil {
		s.deletionScheduled = *request.ScheduleDeletion
		f.poke()
	}
}

func (f *fleet) setVPC(s *server, enable bool) {
	wanted := vpcDisabled
	if enable {
		wanted = vpcEnabled
	}
	if s.vpc == wanted {
		return
	}
	s.vpc, s.vpcWanted, s.vpcSince = vpcUpdating, wanted, s.updated
	s.vpcDue = s.updated.Add(f.scaled(f.opts.Timings.VPC))
}

// commit changes the commitment. A month counts from the PATCH (recorded); none
// cancels a renewal and leaves the date (INF).
func (f *fleet) commit(s *server, wanted string) {
	switch {
	case wanted == commitMonthly:
		s.commitment, s.commitmentCancelled = commitMonthly, false
		s.deletable = f.monthAfter(s.updated)
	case wanted == commitNone && s.commitment == commitMonthly:
		s.commitmentCancelled = true
	default:
		s.commitment = wanted
	}
}

// deleteServer refuses before the floor. Whether the floor or a transient state
// wins is unknown; the default rules have no transient state for it.
func (a *serverAPI) deleteServer(_ *call, s *server) reply {
	if refused, stop := a.refusal(OpDelete, s); stop {
		return refused
	}
	if a.now().Before(s.deletable) {
		return cannotDeleteBefore(s.deletable)
	}
	a.fleet.remove(s, a.now())
	return noContent()
}

// rebootServer is a power cut: the password stays (recorded).
func (a *serverAPI) rebootServer(c *call, s *server) reply {
	if refused, fine := c.decode(&struct{}{}); !fine {
		return refused
	}
	if refused, stop := a.refusal(OpReboot, s); stop {
		return refused
	}
	var keys []string
	if a.opts.KeysOnReboot {
		keys = a.fleet.keys.enabledKeys(s.project)
	}
	reboot := &transition{due: a.now().Add(a.scaled(a.opts.Timings.Reboot))}
	a.fleet.begin(s, StatusRebooting, reboot)
	a.fleet.engage(s, reboot, a.fleet.hardwareReboot(s.id, keys))
	return a.written(s)
}

type reinstallRequest struct {
	OSID       *string `json:"os_id"`
	EnableKext bool    `json:"enable_kext"`
}

// reinstallServer wipes. The disk is gone when the request is answered; the new
// system, and with it the new password, is there at the end (INF: never recorded).
func (a *serverAPI) reinstallServer(c *call, s *server) reply {
	var request reinstallRequest
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	if refused, stop := a.refusal(OpReinstall, s); stop {
		return refused
	}
	image, found := a.shop.catalogue.osByName(s.kind.DefaultOS)
	if request.OSID != nil {
		image, found = a.shop.catalogue.osByID(*request.OSID)
	}
	if !found || !slices.Contains(image.Types, s.kind.Name) {
		return invalidArgument("os_id", "constraint", "os is not available for this server type")
	}
	password, err := a.newPassword()
	if err != nil {
		a.log.Error("reinstall failed", "server", s.id, "error", err)
		return internalError()
	}
	reinstall := &transition{due: a.now().Add(a.scaled(a.opts.Timings.Reinstall))}
	reinstall.reinstall = true
	reinstall.atDue = a.fleet.install(s, image, password)
	reinstall.effect = func(s *server) {
		s.password, s.os, s.delivered, s.kext = password, image, true, request.EnableKext
		s.installs++
	}
	a.fleet.begin(s, StatusReinstalling, reinstall)
	a.fleet.engage(s, reinstall, a.fleet.hardwareErase(s.id))
	return a.written(s)
}
