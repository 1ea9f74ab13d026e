package scaleway

import (
	"maps"
	"net/http"
	"net/netip"
	"strconv"
)

// control adds the sandbox's own API. It has no authentication, so it answers
// loopback callers only.
func (v *Vendor) control(mux *http.ServeMux) {
	routes := v.controlWorld()
	maps.Copy(routes, map[string]http.HandlerFunc{
		"GET /sandbox/servers":        v.showServers,
		"GET /sandbox/journal":        v.showJournal,
		"GET /sandbox/faults":         v.showFaults,
		"POST /sandbox/faults":        v.armFault,
		"DELETE /sandbox/faults":      v.clearFaults,
		"DELETE /sandbox/faults/{id}": v.clearFaults,
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

func (v *Vendor) showServers(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"servers": v.Servers()})
}

// showJournal takes ?after=SEQ to go on from an earlier look.
func (v *Vendor) showJournal(w http.ResponseWriter, r *http.Request) {
	after, err := int64(0), error(nil)
	if text := r.URL.Query().Get("after"); text != "" {
		after, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil || after < 0 {
		controlError(w, http.StatusBadRequest, "after is a sequence number")
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"entries": v.Journal(after)})
}

func (v *Vendor) showFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{"faults": v.Faults(), "used": v.UsedFaults()})
}

func (v *Vendor) armFault(w http.ResponseWriter, r *http.Request) {
	var fault Fault
	if !readControl(w, r, &fault) {
		return
	}
	armed, err := v.Arm(fault)
	if err != nil {
		controlError(w, http.StatusBadRequest, err.Error())
		return
	}
	writeJSON(w, http.StatusCreated, armed)
}

func (v *Vendor) clearFaults(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	cleared := v.Clear(id)
	if id != "" && cleared == 0 {
		controlError(w, http.StatusNotFound, "no such fault: "+id)
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"cleared": cleared})
}
