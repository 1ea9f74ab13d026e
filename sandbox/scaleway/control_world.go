package scaleway

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// controlWorld are the parts of the control API that change the vendor's world
// rather than single calls.
func (c *control) controlWorld() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"GET /sandbox/knobs":           c.showKnobs,
		"PATCH /sandbox/knobs":         c.turnKnobs,
		"PATCH /sandbox/types/{type}":  c.changeType,
		"PATCH /sandbox/servers/{id}":  c.changeServer,
		"DELETE /sandbox/servers/{id}": c.deleteInConsole,
		"PUT /sandbox/macs/{id}":       c.switchMac,
		"PUT /sandbox/rules":           c.changeRule,
		"PUT /sandbox/keys":            c.changeKeys,
		"PUT /sandbox/rights":          c.changeRights,
	}
}

// readControl decodes a request's body, or answers what is wrong with it.
func readControl(w http.ResponseWriter, r *http.Request, target any) bool {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(target); err != nil {
		controlError(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

func (c *control) showKnobs(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, c.vendor.Knobs())
}

// turnKnobs changes the knobs that the body names.
func (c *control) turnKnobs(w http.ResponseWriter, r *http.Request) {
	var named map[string]json.RawMessage
	wanted := c.vendor.Knobs()
	if !readControl(w, r, &named) {
		return
	}
	text, err := json.Marshal(named)
	if err == nil {
		err = strictly(text, &wanted)
	}
	if err == nil {
		err = c.vendor.Turn(func(k *Knobs) { _ = strictly(text, k) })
	}
	if err != nil {
		controlError(w, http.StatusBadRequest, err.Error())
		return
	}
	c.showKnobs(w, r)
}

// strictly decodes JSON without fields that the target lacks.
func strictly(text []byte, target any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(target)
}

// changeType sets the stock and the quota of a server type; a quota below 0 lifts it.
func (c *control) changeType(w http.ResponseWriter, r *http.Request) {
	var change struct {
		Stock *string `json:"stock"`
		Quota *int    `json:"quota"`
	}
	name := r.PathValue("type")
	if !readControl(w, r, &change) {
		return
	}
	if !c.vendor.sells(name) {
		controlError(w, http.StatusNotFound, "no such server type")
		return
	}
	if change.Stock != nil {
		if !slices.Contains([]string{NoStock, LowStock, HighStock}, *change.Stock) {
			controlError(w, http.StatusBadRequest, "stock is no_stock, low_stock or high_stock")
			return
		}
		c.vendor.SetStock(name, *change.Stock)
	}
	if change.Quota != nil {
		c.vendor.SetQuota(name, *change.Quota)
	}
	done(w)
}

func (s *shop) sells(typeName string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.catalogue.Types, func(t ServerType) bool { return t.Name == typeName })
}

// changeServer does what the console would.
func (c *control) changeServer(w http.ResponseWriter, r *http.Request) {
	var change struct {
		Name             *string    `json:"name"`
		Status           *Status    `json:"status"`
		ScheduleDeletion *bool      `json:"schedule_deletion"`
		DeletableAt      *time.Time `json:"deletable_at"`
	}
	if !readControl(w, r, &change) {
		return
	}
	id, found := c.idOf(r.PathValue("id"))
	if found && change.Name != nil {
		found = c.vendor.Rename(id, *change.Name)
	}
	if found && change.Status != nil {
		found = c.vendor.SetStatus(id, *change.Status)
	}
	if found && change.ScheduleDeletion != nil {
		found = c.vendor.ScheduleDeletion(id, *change.ScheduleDeletion)
	}
	if found && change.DeletableAt != nil {
		found = c.vendor.SetFloor(id, *change.DeletableAt)
	}
	doneIf(w, found)
}

func (c *control) deleteInConsole(w http.ResponseWriter, r *http.Request) {
	id, found := c.idOf(r.PathValue("id"))
	doneIf(w, found && c.vendor.Remove(id))
}

// switchMac turns the Mac behind a server on or off.
func (c *control) switchMac(w http.ResponseWriter, r *http.Request) {
	var wanted struct {
		On *bool `json:"on"`
	}
	if !readControl(w, r, &wanted) {
		return
	}
	powered, able := c.vendor.opts.Hardware.(Powered)
	id, found := c.idOf(r.PathValue("id"))
	switch {
	case wanted.On == nil:
		controlError(w, http.StatusBadRequest, `say {"on": true} or {"on": false}`)
		return
	case !able:
		controlError(w, http.StatusNotImplemented, "no Mac of this vendor has a switch")
		return
	case !found:
		controlError(w, http.StatusNotFound, "no such server: "+r.PathValue("id"))
		return
	}
	found, err := powered.Power(r.Context(), id, *wanted.On)
	if err != nil {
		controlError(w, http.StatusInternalServerError, err.Error())
		return
	}
	doneIf(w, found)
}

// idOf takes a server's name too, as people do.
func (c *control) idOf(idOrName string) (string, bool) {
	s, found := c.vendor.Server(idOrName)
	return s.ID, found
}

var verdicts = map[string]Verdict{"allow": Allow, "transient": Transient, "locked": Locked}

func (c *control) changeRule(w http.ResponseWriter, r *http.Request) {
	var rule struct {
		Operation Operation `json:"operation"`
		Status    Status    `json:"status"`
		Verdict   string    `json:"verdict"`
	}
	if !readControl(w, r, &rule) {
		return
	}
	verdict, known := verdicts[rule.Verdict]
	if !known || !slices.Contains(operations, rule.Operation) || rule.Status == "" {
		controlError(w, http.StatusBadRequest, "a rule has an operation (rename, update, reboot, reinstall, delete), a status, and a verdict (allow, transient, locked)")
		return
	}
	c.vendor.SetRule(rule.Operation, rule.Status, verdict)
	done(w)
}

// changeKeys replaces the secret keys that are accepted.
func (c *control) changeKeys(w http.ResponseWriter, r *http.Request) {
	var change struct {
		SecretKeys []string `json:"secret_keys"`
	}
	if !readControl(w, r, &change) {
		return
	}
	c.vendor.SetSecretKeys(change.SecretKeys...)
	done(w)
}

func (c *control) changeRights(w http.ResponseWriter, r *http.Request) {
	change := struct {
		SecretKey string `json:"secret_key"`
		Rights    Rights `json:"rights"`
	}{SecretKey: DefaultSecretKey}
	if !readControl(w, r, &change) {
		return
	}
	if !slices.Contains([]Rights{FullRights, EmptyLists, NoRights, ReadOnly}, change.Rights) {
		controlError(w, http.StatusBadRequest, `rights are "" (all), empty-lists, none or read-only`)
		return
	}
	c.vendor.SetRights(change.SecretKey, change.Rights)
	done(w)
}

func done(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }

func doneIf(w http.ResponseWriter, found bool) {
	if !found {
		controlError(w, http.StatusNotFound, "no such server")
		return
	}
	done(w)
}
