package scaleway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

func TestGarbage(t *testing.T) {
	const stranger = "0ddba11a-0000-4000-8000-000000000000"
	for kind, test := range map[string]struct {
		contentType string
		fine        func(body string) bool
	}{
		scaleway.GarbageHTML:      {"text/html; charset=utf-8", func(body string) bool { return body[0] == '<' }},
		scaleway.GarbageEmpty:     {"application/json", func(body string) bool { return body == "" }},
		scaleway.GarbageTruncated: {"application/json", func(body string) bool { return body[0] == '{' && !json.Valid([]byte(body)) }},
		scaleway.GarbageWrongType: {"text/plain", func(body string) bool { return json.Valid([]byte(body)) }},
		scaleway.GarbageWrongID:   {"application/json", func(body string) bool { return idOf(body) == stranger }},
	} {
		for _, when := range []string{scaleway.BeforeEffect, scaleway.AfterEffect} {
			for method, path := range map[string]string{"GET": "", "PATCH": "", "LIST": "/.."} {
				t.Run(kind+" "+when+" "+method, func(t *testing.T) {
					w := newWorld(t, scaleway.Options{})
					s := w.pool(scaleway.ServerSpec{Name: "mac"})
					w.arm(scaleway.Fault{Garbage: kind, When: when})
					target, body := serversPath+"/"+s.ID, `{"name":"renamed"}`
					if path != "" {
						method, target, body = "GET", serversPath, ""
					}
					response, text := w.raw(method, target, scaleway.DefaultSecretKey, body)
					if response.StatusCode != 200 || response.Header.Get("Content-Type") != test.contentType || !test.fine(text) {
						t.Errorf("got %d %q %.100q", response.StatusCode, response.Header.Get("Content-Type"), text)
					}
					if view, _ := w.Server(s.ID); method == "PATCH" && (view.Name == "renamed") != (when == scaleway.AfterEffect) {
						t.Errorf("name %q", view.Name)
					}
				})
			}
		}
	}
}

const serversPath = "/apple-silicon/v1alpha1/zones/fr-par-1/servers"

// idOf is the identifier in an answer about a server, or of the first in a list.
func idOf(body string) string {
	var answer struct {
		ID      string
		Servers []struct{ ID string }
	}
	if json.Unmarshal([]byte(body), &answer) != nil {
		return ""
	}
	if len(answer.Servers) > 0 {
		return answer.Servers[0].ID
	}
	return answer.ID
}

func TestHugeAnswer(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	w.arm(scaleway.Fault{Garbage: scaleway.GarbageHuge})
	_, body := w.raw("GET", serversPath, scaleway.DefaultSecretKey, "")
	if len(body) < 32<<20 || body[0] != '{' || body[len(body)-1] != '}' {
		t.Errorf("%d bytes", len(body))
	}
}

func TestGarbageWithAStatus(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	w.arm(scaleway.Fault{Garbage: scaleway.GarbageHTML, Status: 502})
	if response, _ := w.raw("GET", "/metadata", scaleway.DefaultSecretKey, ""); response.StatusCode != 502 {
		t.Errorf("status %d", response.StatusCode)
	}
}

// The vendor says nothing until the client gives up; what it did, it did.
func TestSilence(t *testing.T) {
	for when, name := range map[string]string{scaleway.BeforeEffect: "mac", scaleway.AfterEffect: "renamed"} {
		w := newWorld(t, scaleway.Options{})
		s := w.pool(scaleway.ServerSpec{Name: "mac"})
		w.arm(scaleway.Fault{Call: "UpdateServer", Silence: true, When: when, Count: 1})
		ctx, giveUp := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.renameIn(ctx, s.ID, "renamed") }()
		awaitHits(t, w)
		for when == scaleway.AfterEffect {
			if view, _ := w.Server(s.ID); view.Name == name {
				break
			}
			w.clock.Step(time.Minute) // no time on the vendor's clock ends it
		}
		select {
		case err := <-ended:
			t.Errorf("%s: answered with %v", when, err)
		default:
		}
		giveUp()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", when, err)
		}
		if view, _ := w.Server(s.ID); view.Name != name {
			t.Errorf("%s: name %q", when, view.Name)
		}
	}
}

func (w *world) renameIn(ctx context.Context, id, name string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, w.url+serversPath+"/"+id, jsonBody(map[string]string{"name": name}))
	if err != nil {
		return err
	}
	request.Header.Set("X-Auth-Token", scaleway.DefaultSecretKey)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func jsonBody(value any) io.Reader {
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(json.NewEncoder(writer).Encode(value)) }()
	return reader
}

func TestFaultByChance(t *testing.T) {
	hits := func(seed byte) (met []int) {
		w := newInline(t, scaleway.Options{}, seed)
		s := w.pool(scaleway.ServerSpec{Name: "mac"})
		w.arm(scaleway.Fault{Call: "UpdateServer", Error: "too_many_requests", Probability: 0.3})
		for i := range 1000 {
			if w.rename(s.ID, "x") != nil {
				met = append(met, i)
			}
		}
		return met
	}
	first, again := hits(1), hits(1)
	if len(first) < 250 || len(first) > 350 {
		t.Errorf("met %d of 1000 calls, want about 300", len(first))
	}
	if len(again) != len(first) || again[0] != first[0] || again[len(again)-1] != first[len(first)-1] {
		t.Error("the same seed met other calls")
	}
}

func TestThrottlingPreset(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	w.arm(scaleway.Fault{Call: "ListServers", Error: "too_many_requests", Count: 1})
	response, body := w.raw("GET", serversPath, scaleway.DefaultSecretKey, "")
	if response.StatusCode != 429 || body != "" || response.Header.Get("X-Envoy-Ratelimited") != "true" {
		t.Errorf("throttled with %d, %q, %v", response.StatusCode, body, response.Header)
	}
	_, err := w.macs.ListServers(&applesilicon.ListServersRequest{})
	must(t, err)
}
