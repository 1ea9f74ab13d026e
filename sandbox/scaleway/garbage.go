package scaleway

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"
)

// What [Fault.Garbage] can be. Each is an answer 200 unless the fault has a status.
const (
	// GarbageHTML is a page, as a proxy's.
	GarbageHTML = "html"
	// GarbageEmpty is JSON by its type, and no body.
	GarbageEmpty = "empty"
	// GarbageTruncated is the first half of the answer.
	GarbageTruncated = "truncated"
	// GarbageWrongID is the answer about another server, the first one's in a list.
	GarbageWrongID = "wrong-id"
	// GarbageWrongType is the answer, but not JSON by its type.
	GarbageWrongType = "wrong-type"
	// GarbageHuge is 32 MiB of JSON.
	GarbageHuge = "huge"
)

// strangerID is the server that [GarbageWrongID] speaks of.
const strangerID = "0ddba11a-0000-4000-8000-000000000000"

const hugeSize = 32 << 20

// raw is a body that is not made by the JSON encoder.
type raw struct {
	contentType string
	text        []byte
}

var garbageKinds = []string{GarbageHTML, GarbageEmpty, GarbageTruncated, GarbageWrongID, GarbageWrongType, GarbageHuge}

// garbage spoils an answer. Callers hold the lock.
func (b *faultBook) garbage(f Fault, c *call, proper reply) reply {
	if proper.body == nil {
		proper.body = b.plausible(c)
	}
	status := f.Status
	status = cmp.Or(status, http.StatusOK)
	spoiled := func(contentType string, text []byte) reply {
		return reply{status: status, raw: &raw{contentType, text}}
	}
	const asJSON = "application/json"
	switch f.Garbage {
	case GarbageHTML:
		return spoiled("text/html; charset=utf-8", []byte("<!doctype html><title>Maintenance</title><p>We will be right back.</p>\n"))
	case GarbageEmpty:
		return spoiled(asJSON, nil)
	case GarbageTruncated:
		text := encoded(proper.body)
		return spoiled(asJSON, text[:len(text)/2])
	case GarbageWrongType:
		return spoiled("text/plain", encoded(proper.body))
	case GarbageHuge:
		return spoiled(asJSON, slicesOf(`{"name":"`, bytes.Repeat([]byte("x"), hugeSize), `"}`))
	default:
		return reply{status: status, body: aboutStranger(proper.body)}
	}
}

func slicesOf(before string, middle []byte, after string) []byte {
	return append(append([]byte(before), middle...), after...)
}

// plausible is the body of a call that was not performed.
func (b *faultBook) plausible(c *call) any {
	if c.name == "ListServers" {
		return b.api.listServers(c).body
	}
	if s := b.fleet.find(c.id); s != nil {
		return b.api.read(s)
	}
	return map[string]any{"id": c.id}
}

func aboutStranger(body any) any {
	switch body := body.(type) {
	case serverBody:
		body.ID = strangerID
		return body
	case serverListBody:
		if len(body.Servers) > 0 {
			body.Servers[0].ID = strangerID
		}
		return body
	default:
		return map[string]any{"id": strangerID}
	}
}

func encoded(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		return []byte(`{"id":`)
	}
	return text
}

func writeRaw(w http.ResponseWriter, status int, body raw) {
	w.Header().Set("Content-Type", body.contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body.text)))
	w.WriteHeader(status)
	_, _ = w.Write(body.text) // a client that left is not our error
}
