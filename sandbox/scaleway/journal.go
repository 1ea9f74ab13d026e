package scaleway

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Entry is one request that reached the vendor.
type Entry struct {
	// Seq counts requests from 1.
	Seq int64 `json:"seq"`
	// Time is the vendor's, at the request's arrival.
	Time   time.Time `json:"time"`
	Method string    `json:"method"`
	Path   string    `json:"path"`
	Query  string    `json:"query,omitempty"`
	// Call is the SDK's name for the call; empty for one that is not served.
	Call string `json:"call,omitempty"`
	// ServerID is the server that the call names, or created.
	ServerID string `json:"server_id,omitempty"`
	// Body is the request's, without secrets.
	Body json.RawMessage `json:"body,omitempty"`
	// Status is what the client was told; 0 means that the connection was dropped.
	Status int `json:"status"`
	// EffectStatus is the vendor's own answer, which a fault may have replaced; 0
	// means that the call was never performed.
	EffectStatus int `json:"effect_status"`
	// Fault is the identifier of the fault that met the call.
	Fault     string `json:"fault,omitempty"`
	RequestID string `json:"request_id"`
}

// journal is a bounded list of entries.
type journal struct {
	limit   int
	seq     int64
	entries []Entry
}

func (j *journal) append(e Entry) {
	j.seq++
	e.Seq = j.seq
	if len(j.entries) >= j.limit {
		// Drop a tenth at once: shifting for each entry would cost too much.
		j.entries = slices.Delete(j.entries, 0, max(1, j.limit/10))
	}
	j.entries = append(j.entries, e)
}

// Journal are the requests after the given sequence number, in the order of
// their answers; 0 gives all that are kept.
func (g *gateway) Journal(after int64) []Entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, _ := slices.BinarySearchFunc(g.journal.entries, after+1, func(e Entry, seq int64) int {
		return int(e.Seq - seq)
	})
	return slices.Clone(g.journal.entries[at:])
}

// redact is a request's body without secrets; a body that is not JSON becomes a note.
func redact(body []byte) json.RawMessage {
	if len(body) == 0 {
		return nil
	}
	var decoded any
	if err := json.Unmarshal(body, &decoded); err != nil {
		return json.RawMessage(`"(not JSON)"`)
	}
	text, err := json.Marshal(withoutSecrets(decoded))
	if err != nil {
		return json.RawMessage(`"(not JSON)"`)
	}
	return text
}

func withoutSecrets(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if secretName(name) {
				value[name] = "(redacted)"
				continue
			}
			value[name] = withoutSecrets(member)
		}
	case []any:
		for i := range value {
			value[i] = withoutSecrets(value[i])
		}
	}
	return value
}

func secretName(name string) bool {
	name = strings.ToLower(name)
	return strings.Contains(name, "password") || strings.Contains(name, "token") || strings.Contains(name, "secret")
}
