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
	// maxBody bounds request bodies; the largest real one is an SSH key of 65,000 characters.
	maxBody = 1 << 20
	// clientPatience is the SDK's timeout for a whole request.
	clientPatience = 30 * time.Second
)

// call is one request to the vendor, read and routed.
type call struct {
	// name is what the SDK calls it, such as CreateServer.
	name         string
	method, path string
	zone         string // empty for calls without one
	id           string // of the server or key; CreateServer sets it
	network      string // of the private network
	query        url.Values
	body         []byte
}

// handler makes the effect of a call and its answer. It runs under the vendor's lock.
type handler func(c *call) reply

// gateway is what stands before every call: who may make it, which fault meets it, and
// the journal.
type gateway struct {
	*world
	fleet   *fleet
	faults  *faultBook
	secrets []string
	rights  map[string]Rights
	journal journal
}

// serve answers one kind of call: faults around it, journalled before it is written.
func (g *gateway) serve(name string, handle handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{
			name: name, method: r.Method, path: r.URL.Path, zone: r.PathValue("zone"), id: r.PathValue("id"),
			network: r.PathValue("network"), query: r.URL.Query(),
		}
		entry := Entry{Time: g.now(), Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Call: name}
		var out reply
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			out = invalidArgument("body", "constraint", "body could not be read")
		} else {
			c.body = body
			out = g.answer(r, c, handle, &entry)
		}
		entry.Status = out.status
		entry.Body = redact(c.body)
		if strings.Contains(r.URL.Path, "/servers") {
			entry.ServerID = c.id
		}
		g.mu.Lock()
		entry.RequestID = g.requestID()
		g.journal.append(entry)
		g.mu.Unlock()
		g.write(w, entry, out)
	}
}

// answer performs a call, unless a fault comes before it, and lets a fault replace its answer.
func (g *gateway) answer(r *http.Request, c *call, handle handler, entry *Entry) reply {
	fault, armed := g.faults.takeFault(r, c)
	if !armed {
		out := g.perform(r, c, handle)
		entry.EffectStatus = out.status
		return out
	}
	entry.Fault = fault.ID
	if fault.When == BeforeEffect {
		if out, replaced := g.faults.meet(r.Context(), fault, c, reply{}); replaced {
			return out
		}
	}
	out := g.perform(r, c, handle)
	entry.EffectStatus = out.status
	if fault.When == AfterEffect {
		if spoiled, replaced := g.faults.meet(r.Context(), fault, c, out); replaced {
			return spoiled
		}
	}
	return out
}

func (g *gateway) perform(r *http.Request, c *call, handle handler) reply {
	g.fleet.catchUp()
	defer g.fleet.catchUp()
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.name != "" && !g.authentic(r.Header.Get("X-Auth-Token")) {
		return deniedAuthentication()
	}
	if c.zone != "" && !slices.Contains(g.opts.Zones, c.zone) {
		// INF: no recording asks for a zone that does not exist.
		return invalidArgument("zone", "constraint", "zone is not available for this product")
	}
	if refused, stop := g.forbidden(r, c); stop {
		return refused
	}
	g.fleet.advance()
	return handle(c)
}

func (g *gateway) authentic(token string) bool {
	return slices.ContainsFunc(g.secrets, func(secret string) bool {
		return subtle.ConstantTimeCompare([]byte(secret), []byte(token)) == 1
	})
}

// write sends an answer with the headers of a recorded one.
func (g *gateway) write(w http.ResponseWriter, entry Entry, out reply) {
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
