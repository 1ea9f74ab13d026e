package scaleway

import (
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	zonesPath = "/apple-silicon/v1alpha1/zones/{zone}"
	iamPath   = "/iam/v1alpha1"
	// maxBody bounds request bodies; the largest real one is an SSH key of 65,000 characters.
	maxBody = 1 << 20
	// clientPatience is the SDK's timeout for a whole request.
	clientPatience = 30 * time.Second
)

// call is one request to the vendor, read and routed.
type call struct {
	// name is what the SDK calls it, such as CreateServer.
	name  string
	zone  string // empty for calls without one
	id    string // of the server or key; CreateServer sets it
	query url.Values
	body  []byte
}

// decode reads the body into target, or gives the answer to a malformed one (INF).
func (c *call) decode(target any) (reply, bool) {
	if len(c.body) == 0 {
		return reply{}, true
	}
	if err := json.Unmarshal(c.body, target); err != nil {
		return invalidArgument("body", "format", "body must be valid JSON"), false
	}
	return reply{}, true
}

// handler makes the effect of a call and its answer. It runs under the vendor's lock.
type handler func(c *call) reply

func (v *Vendor) routes() http.Handler {
	mux := http.NewServeMux()
	for _, route := range []struct {
		method, path, name string
		handle             handler
	}{
		{"GET", "/metadata", "GetMetadata", v.metadata},
		{"GET", zonesPath + "/server-types", "ListServerTypes", v.listServerTypes},
		{"GET", zonesPath + "/server-type/{id}", "GetServerType", v.getServerType},
		{"GET", zonesPath + "/os", "ListOS", v.listOS},
		{"GET", zonesPath + "/os/{id}", "GetOS", v.getOS},
		{"GET", zonesPath + "/servers", "ListServers", v.listServers},
		{"POST", zonesPath + "/servers", "CreateServer", v.createServer},
		{"GET", zonesPath + "/servers/{id}", "GetServer", v.withServer("read", v.getServer)},
		{"PATCH", zonesPath + "/servers/{id}", "UpdateServer", v.withServer("write", v.updateServer)},
		{"DELETE", zonesPath + "/servers/{id}", "DeleteServer", v.withServer("delete", v.deleteServer)},
		{"POST", zonesPath + "/servers/{id}/reboot", "RebootServer", v.withServer("write", v.rebootServer)},
		{"POST", zonesPath + "/servers/{id}/reinstall", "ReinstallServer", v.withServer("write", v.reinstallServer)},
		{"POST", zonesPath + "/connectivity-diagnostics", "StartConnectivityDiagnostic", v.startDiagnostic},
		{"GET", zonesPath + "/connectivity-diagnostics/{id}", "GetConnectivityDiagnostic", v.getDiagnostic},
		{"GET", iamPath + "/ssh-keys", "ListSSHKeys", v.listSSHKeys},
		{"POST", iamPath + "/ssh-keys", "CreateSSHKey", v.createSSHKey},
		{"GET", iamPath + "/ssh-keys/{id}", "GetSSHKey", v.withKey(v.getSSHKey)},
		{"PATCH", iamPath + "/ssh-keys/{id}", "UpdateSSHKey", v.withKey(v.updateSSHKey)},
		{"DELETE", iamPath + "/ssh-keys/{id}", "DeleteSSHKey", v.withKey(v.deleteSSHKey)},
	} {
		mux.HandleFunc(route.method+" "+route.path, v.serve(route.name, route.handle))
		v.calls = append(v.calls, route.name)
	}
	mux.HandleFunc("/", v.serve("", func(*call) reply { return notServed() }))
	v.control(mux)
	return mux
}

// serve answers one kind of call: faults around it, journalled before it is written.
func (v *Vendor) serve(name string, handle handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{name: name, zone: r.PathValue("zone"), id: r.PathValue("id"), query: r.URL.Query()}
		entry := Entry{Time: v.now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Call: name}
		var out reply
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			out = invalidArgument("body", "constraint", "body could not be read")
		} else {
			c.body = body
			out = v.answer(r, c, handle, &entry)
		}
		entry.Status = out.status
		entry.Body = redact(c.body)
		if strings.Contains(r.URL.Path, "/servers") {
			entry.ServerID = c.id
		}
		v.mu.Lock()
		entry.RequestID = v.requestID()
		v.journal.append(entry)
		v.mu.Unlock()
		v.write(w, entry, out)
	}
}

// answer performs a call, unless a fault comes before it, and lets a fault replace its answer.
func (v *Vendor) answer(r *http.Request, c *call, handle handler, entry *Entry) reply {
	fault, armed := v.takeFault(r, c)
	if !armed {
		out := v.perform(r, c, handle)
		entry.EffectStatus = out.status
		return out
	}
	entry.Fault = fault.ID
	if fault.When == BeforeEffect {
		if out, replaced := v.meet(r.Context(), fault, c, reply{}); replaced {
			return out
		}
	}
	out := v.perform(r, c, handle)
	entry.EffectStatus = out.status
	if fault.When == AfterEffect {
		if spoiled, replaced := v.meet(r.Context(), fault, c, out); replaced {
			return spoiled
		}
	}
	return out
}

func (v *Vendor) perform(r *http.Request, c *call, handle handler) reply {
	v.catchUp()
	defer v.catchUp()
	v.mu.Lock()
	defer v.mu.Unlock()
	if c.name != "" && !v.authentic(r.Header.Get("X-Auth-Token")) {
		return deniedAuthentication()
	}
	if c.zone != "" && !slices.Contains(v.opts.Zones, c.zone) {
		// INF: no recording asks for a zone that does not exist.
		return invalidArgument("zone", "constraint", "zone is not available for this product")
	}
	if refused, stop := v.forbidden(r, c); stop {
		return refused
	}
	v.advance()
	return handle(c)
}

func (v *Vendor) authentic(token string) bool {
	return slices.ContainsFunc(v.secrets, func(secret string) bool {
		return subtle.ConstantTimeCompare([]byte(secret), []byte(token)) == 1
	})
}

// write sends an answer with the headers of a recorded one.
func (v *Vendor) write(w http.ResponseWriter, entry Entry, out reply) {
	if out.drop {
		drop(w, out.late)
		return
	}
	header := w.Header()
	header.Set("Server", "Scaleway API Gateway (sandbox;edge01)")
	header.Set("Date", entry.Time.Format(http.TimeFormat))
	header.Set("X-Request-Id", entry.RequestID)
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Strict-Transport-Security", "max-age=63072000")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	if out.raw != nil {
		writeRaw(w, out.status, *out.raw)
		return
	}
	if out.body == nil {
		writeEmpty(w, out.status)
		return
	}
	writeJSON(w, out.status, out.body)
}

// writeEmpty sends an answer without a body. A 204 is recorded with a content
// type; the 429 without one, and it names its limiter.
func writeEmpty(w http.ResponseWriter, status int) {
	w.Header()["Content-Type"] = nil
	switch status {
	case http.StatusNoContent:
		w.Header().Set("Content-Type", "application/json")
	case http.StatusTooManyRequests:
		w.Header().Set("X-Envoy-Ratelimited", "true")
	}
	w.WriteHeader(status)
}

// drop closes the connection without an answer.
func drop(w http.ResponseWriter, late bool) {
	if local, ok := w.(interface{ cut(timedOut bool) }); ok {
		local.cut(late)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return
	}
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return
	}
	_ = conn.Close()
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the wire carries a plain <sealed>
	if err := encoder.Encode(body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	line := strings.TrimSuffix(text.String(), "\n")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(line)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, line) // a client that left is not our error
}
