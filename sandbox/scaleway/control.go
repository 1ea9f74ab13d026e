package scaleway

import (
	"maps"
	"net/http"
	"net/netip"
	"strconv"
)

// control is the sandbox's own API, over what the vendor lets its people do.
type control struct{ vendor *Vendor }

// control adds the sandbox's own API. It has no authentication, so it answers
// loopback callers only.
func (c *control) control(mux *http.ServeMux) {
	routes := c.controlWorld()
	maps.Copy(routes, map[string]http.HandlerFunc{
		"GET /sandbox/servers":        c.showServers,
		"GET /sandbox/journal":        c.showJournal,
		"GET /sandbox/faults":         c.showFaults,
		"POST /sandbox/faults":        c.armFault,
		"DELETE /sandbox/faults":      c.clearFaults,
		"DELETE /sandbox/faults/{id}": c.clearFaults,
		"/sandbox/":                   http.NotFound,
	})
	for pattern, handle := range routes {
		mux.HandleFunc(pattern, loopbackOnly(handle))
	}
}

func loopbackOnly(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !peer.Addr().Unmap().IsLoopback() {
			controlError(w, http.StatusForbidden, "the control API answers loopback callers only")
			return
		}
		next(w, r)
	}
}

func controlError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]string{"error": message})
}

func (c *control) showServers(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"servers": c.vendor.Servers()})
}

// showJournal takes ?after=SEQ to go on from an earlier look.
func (c *control) showJournal(w http.ResponseWriter, r *http.Request) {
	after, err := int64(0), error(nil)
	if text := r.URL.Query().Get("after"); text != "" {
		after, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || after < 0 {
		controlError(w, http.StatusBadRequest, "after is a sequence number")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"entries": c.vendor.Journal(after)})
}

func (c *control) showFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"faults": c.vendor.Faults(), "used": c.vendor.UsedFaults()})
}

func (c *control) armFault(w http.ResponseWriter, r *http.Request) {
	var fault Fault
	if !readControl(w, r, &fault) {
		return
	}
	armed, err := c.vendor.Arm(fault)
	if err != nil {
		controlError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusCreated, armed)
}

func (c *control) clearFaults(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	cleared := c.vendor.Clear(id)
	if id != "" && cleared == 0 {
		controlError(w, http.StatusNotFound, "no such fault: "+id)
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"cleared": cleared})
}
