package scaleway

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// withServer gives a handler its server, or answers as the vendor does for one
// that is gone or never was. Action is what permissions_denied names.
func (v *Vendor) withServer(action string, handle func(*call, *server) reply) handler {
	return func(c *call) reply {
		if uuid.Validate(c.id) != nil {
			return notUUID("server_id") // INF
		}
		s := v.find(c.id)
		if s == nil || s.zone != c.zone {
			return v.gone(action, c.id)
		}
		return handle(c, s)
	}
}

// sealedRead says whether even a GET hides the credentials.
func (v *Vendor) sealedRead(s *server) bool {
	if v.knobs.Sealed != SealWindow {
		return false
	}
	switch s.status {
	case StatusStarting, StatusRebooting, StatusReinstalling:
		return true
	}
	return v.now().Before(s.readySince.Add(v.scaled(v.opts.Timings.SealedWindow)))
}

// read renders a server for GET and list, write for the answers to writes.
func (v *Vendor) read(s *server) serverBody {
	return v.emptied(v.render(s, v.sealedRead(s)))
}

func (v *Vendor) written(s *server) reply {
	return ok(v.emptied(v.render(s, v.knobs.Sealed == SealWrites || v.sealedRead(s))))
}

// emptied takes the credentials out in mode [SealReads].
func (v *Vendor) emptied(body serverBody) serverBody {
	if v.knobs.Sealed == SealReads {
		body.SudoPassword, body.VNCURL = "", ""
	}
	return body
}

func (v *Vendor) getServer(_ *call, s *server) reply { return ok(v.read(s)) }

func (v *Vendor) listServers(c *call) reply {
	project, organization := c.query.Get("project_id"), c.query.Get("organization_id")
	matching := slices.DeleteFunc(v.listed(), func(s *server) bool {
		return s.zone != c.zone || project != "" && s.project != project ||
			organization != "" && organization != v.opts.OrganizationID
	})
	refused := sorted(c, matching, map[string]func(a, b *server) int{"created_at": olderFirst})
	if refused != nil {
		return *refused
	}
	shown, refused := page(v, c, matching)
	if refused != nil {
		return *refused
	}
	list := serverListBody{Servers: []serverBody{}, TotalCount: len(matching)}
	for _, s := range shown {
		list.Servers = append(list.Servers, v.read(s))
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
}

func (v *Vendor) createServer(c *call) reply {
	var request createRequest
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	wanted, refused := v.checkOrder(c, request)
	if refused != nil {
		return *refused
	}
	s, err := v.newServer(wanted)
	if err != nil {
		v.log.Error("order failed", "name", request.Name, "error", err)
		return internalError()
	}
	delivery := &transition{due: s.created.Add(v.deliveryTime(s))}
	delivery.atDue = v.install(s, s.os, s.password)
	delivery.effect = func(s *server) { s.delivered = true }
	if request.EnableVPC {
		s.vpc = vpcUpdating
		delivery.effect = func(s *server) { s.delivered, s.vpc = true, vpcEnabled }
	}
	v.servers = append(v.servers, s)
	s.ordered = s.created
	v.begin(s, StatusStarting, delivery)
	c.id = s.id
	if v.knobs.Sealed == SealReads {
		return ok(v.render(s, false))
	}
	return v.written(s)
}

// checkOrder reads an order, or refuses it. Except for the stock, the refusals are INF.
func (v *Vendor) checkOrder(c *call, request createRequest) (order, *reply) {
	refuse := func(r reply) (order, *reply) { return order{}, &r }
	if uuid.Validate(request.ProjectID) != nil {
		return refuse(notUUID("project_id"))
	}
	kind, found := v.catalogue.serverType(request.Type, c.zone)
	if !found {
		return refuse(invalidArgument("type", "constraint", "server type is not available in this zone"))
	}
	image, found := v.catalogue.osByName(kind.DefaultOS)
	if request.OSID != nil {
		image, found = v.catalogue.osByID(*request.OSID)
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
	if limit, over := v.overQuota(kind, c.zone); over {
		return refuse(quotasExceeded(limit))
	}
	if kind.Stock == NoStock {
		return refuse(outOfStock())
	}
	return order{
		name: request.Name, project: request.ProjectID, zone: c.zone, kind: kind, os: image,
		created: v.now(), commitment: request.Commitment, bandwidth: request.Bandwidth,
	}, nil
}

func (v *Vendor) deliveryTime(s *server) time.Duration {
	d := s.kind.Delivery
	if s.os.Name != s.kind.DefaultOS {
		d += v.opts.Timings.OtherOS
	}
	return v.scaled(d)
}

type updateRequest struct {
	Name             *string `json:"name"`
	ScheduleDeletion *bool   `json:"schedule_deletion"`
	EnableVPC        *bool   `json:"enable_vpc"`
	Commitment       *struct {
		Type string `json:"commitment_type"`
	} `json:"commitment_type"`
	Bandwidth *int64 `json:"public_bandwidth_bps"`
}

func (v *Vendor) updateServer(c *call, s *server) reply {
	var request updateRequest
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	op := OpUpdate
	if request.Name != nil {
		op = OpRename
	}
	if refused, stop := v.refusal(op, s); stop {
		return refused
	}
	if refused := v.checkUpdate(s, request); refused != nil {
		return *refused
	}
	v.applyUpdate(s, request)
	return v.written(s)
}

func (v *Vendor) checkUpdate(s *server, request updateRequest) *reply {
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
func (v *Vendor) applyUpdate(s *server, request updateRequest) {
	now := v.now()
	v.remember(s, now)
	s.updated = now
	if request.Name != nil {
		v.log.Info("server renamed", "server", s.id, "from", s.name, "to", *request.Name)
		s.name = *request.Name
	}
	if request.Bandwidth != nil {
		s.bandwidth = *request.Bandwidth
	}
	if request.EnableVPC != nil {
		v.setVPC(s, *request.EnableVPC)
	}
	if request.Commitment != nil {
		v.commit(s, request.Commitment.Type)
	}
	if request.ScheduleDeletion != nil {
		s.deletionScheduled = *request.ScheduleDeletion
		v.poke()
	}
}

func (v *Vendor) setVPC(s *server, enable bool) {
	wanted := vpcDisabled
	if enable {
		wanted = vpcEnabled
	}
	if s.vpc == wanted {
		return
	}
	s.vpc, s.vpcWanted, s.vpcDue = vpcUpdating, wanted, s.updated.Add(v.scaled(v.opts.Timings.VPC))
}

// commit changes the commitment. A month counts from the PATCH (recorded); none
// cancels a renewal and leaves the date (INF).
func (v *Vendor) commit(s *server, wanted string) {
	switch {
	case wanted == commitMonthly:
		s.commitment, s.commitmentCancelled = commitMonthly, false
		s.deletable = v.monthAfter(s.updated)
	case wanted == commitNone && s.commitment == commitMonthly:
		s.commitmentCancelled = true
	default:
		s.commitment = wanted
	}
}

// deleteServer refuses before the floor. Whether the floor or a transient state
// wins is unknown; the default rules have no transient state for it.
func (v *Vendor) deleteServer(_ *call, s *server) reply {
	if refused, stop := v.refusal(OpDelete, s); stop {
		return refused
	}
	if v.now().Before(s.deletable) {
		return cannotDeleteBefore(s.deletable)
	}
	v.remove(s, v.now())
	return noContent()
}

// rebootServer is a power cut: the password stays (recorded).
func (v *Vendor) rebootServer(_ *call, s *server) reply {
	if refused, stop := v.refusal(OpReboot, s); stop {
		return refused
	}
	var keys []string
	if v.opts.KeysOnReboot {
		keys = v.enabledKeys(s.project)
	}
	reboot := &transition{due: v.now().Add(v.scaled(v.opts.Timings.Reboot))}
	v.begin(s, StatusRebooting, reboot)
	v.engage(s, reboot, v.hardwareReboot(s.id, keys))
	return v.written(s)
}

type reinstallRequest struct {
	OSID *string `json:"os_id"`
}

// reinstallServer wipes. The disk is gone when the request is answered; the new
// system, and with it the new password, is there at the end (INF: never recorded).
func (v *Vendor) reinstallServer(c *call, s *server) reply {
	var request reinstallRequest
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	if refused, stop := v.refusal(OpReinstall, s); stop {
		return refused
	}
	image, found := v.catalogue.osByName(s.kind.DefaultOS)
	if request.OSID != nil {
		image, found = v.catalogue.osByID(*request.OSID)
	}
	if !found || !slices.Contains(image.Types, s.kind.Name) {
		return invalidArgument("os_id", "constraint", "os is not available for this server type")
	}
	password, err := v.newPassword()
	if err != nil {
		v.log.Error("reinstall failed", "server", s.id, "error", err)
		return internalError()
	}
	reinstall := &transition{due: v.now().Add(v.scaled(v.opts.Timings.Reinstall))}
	reinstall.reinstall = true
	reinstall.atDue = v.install(s, image, password)
	reinstall.effect = func(s *server) {
		s.password, s.os, s.delivered = password, image, true
		s.installs++
	}
	v.begin(s, StatusReinstalling, reinstall)
	v.engage(s, reinstall, v.hardwareErase(s.id))
	return v.written(s)
}
