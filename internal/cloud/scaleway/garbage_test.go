package scaleway_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/scaleway"
)

// roundTripper answers without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func dial(t testing.TB, qps float64, answer roundTripper) *scaleway.Client {
	t.Helper()
	client, err := scaleway.New(scaleway.Options{
		AccessKey: accessKey, SecretKey: secretKey, ProjectID: projectID, QPS: qps, HTTPClient: &http.Client{Transport: answer},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func respond(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// calls are all that the client can do with an answer.
func calls(ctx context.Context, client *scaleway.Client) map[string]error {
	_, list := client.ListServers(ctx, zone)
	_, _, get := client.GetServer(ctx, zone, serverID)
	_, remove := client.DeleteServer(ctx, zone, serverID)
	_, image := client.FindOS(ctx, zone, "tahoe", "M2-L")
	_, order := client.CreateServer(ctx, zone, cloud.ServerOrder{Name: "m-1", Type: "M2-L"})
	_, types := client.ServerTypes(ctx, zone)
	_, start := client.StartDiagnostic(ctx, zone, serverID)
	_, diagnostic := client.GetDiagnostic(ctx, zone, serverID)
	return map[string]error{
		"check": client.CheckAccess(ctx, zone), "list": list, "get": get, "rename": client.RenameServer(ctx, zone, serverID, "m-1"),
		"reinstall": client.ReinstallServer(ctx, zone, serverID, ""), "delete": remove, "image": image, "order": order,
		"reboot": client.RebootServer(ctx, zone, serverID), "types": types, "start": start, "diagnostic": diagnostic,
		"key": client.EnsureSSHKey(ctx, "fleet", "ssh-ed25519 AAAA"),
	}
}

// What is no answer of the vendor's is no refusal either: the act may have had its
// effect, and nothing is to be concluded.
func TestGarbageIsNoAnswer(t *testing.T) {
	html := func() *http.Response {
		answer := respond(200, "<html>Sign in</html>")
		answer.Header.Set("Content-Type", "text/html")
		return answer
	}
	huge := strings.Repeat(" ", 20<<20)
	partial := map[string]bool{"order": true, "key": true, "rename": true, "reinstall": true, "reboot": true, "diagnostic": true} // which use no more of it
	for name, row := range map[string]struct {
		answer func() *http.Response
		also   map[string]bool // calls that take it for an answer
	}{
		"HTML":       {html, nil},
		"empty":      {func() *http.Response { return respond(200, "") }, nil},
		"truncated":  {func() *http.Response { return respond(200, `{"id":"1111`) }, nil},
		"no JSON":    {func() *http.Response { return respond(200, "\x00\xff") }, nil},
		"a list":     {func() *http.Response { return respond(200, `[]`) }, nil},
		"huge":       {func() *http.Response { return respond(200, huge) }, nil},
		"huge error": {func() *http.Response { return respond(500, huge) }, nil},
		"no content": {func() *http.Response { return respond(200, `{}`) }, nil},
		"null":       {func() *http.Response { return respond(200, `null`) }, nil},
		"another id": {func() *http.Response { return respond(200, `{"id":"99999999-2222-3333-4444-555555555555"}`) }, map[string]bool{"order": true, "key": true}},
		"id alone":   {func() *http.Response { return respond(200, `{"id":"`+serverID+`"}`) }, partial},
		"no status":  {func() *http.Response { return respond(200, `{"id":"`+serverID+`","name":"m-1"}`) }, partial},
		"no name":    {func() *http.Response { return respond(200, `{"id":"`+serverID+`","status":"ready"}`) }, partial},
		"wrong types": {func() *http.Response {
			return respond(200, `{"id":7,"servers":{},"os":"x","server_types":1,"diagnostic_id":[],"status":{}}`)
		}, nil},
		"cut": {func() *http.Response { return broken(`{"servers":[`) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			client := dial(t, 0, func(*http.Request) (*http.Response, error) { return row.answer(), nil })
			for call, err := range calls(context.Background(), client) {
				if row.also[call] {
					continue
				}
				if !cloud.IsUnavailable(err) {
					t.Errorf("%s: %v (%s)", call, err, cloud.KindOf(err))
				}
				if err != nil && (len(err.Error()) > 500 || strings.Contains(err.Error(), "\n")) {
					t.Errorf("%s: a text of %d characters", call, len(err.Error()))
				}
			}
		})
	}
}

// broken is an answer whose connection ends before it does.
func broken(start string) *http.Response {
	answer := respond(200, "")
	answer.Body = io.NopCloser(io.MultiReader(strings.NewReader(start), failing{}))
	answer.ContentLength = 1000
	return answer
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

func TestAnEndlessBodyIsNotRead(t *testing.T) {
	read := 0
	client := dial(t, 0, func(*http.Request) (*http.Response, error) {
		answer := respond(200, "")
		answer.Body, answer.ContentLength = io.NopCloser(endless{&read}), -1
		return answer, nil
	})
	if _, _, err := client.GetServer(context.Background(), zone, serverID); !cloud.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
	if read > 10<<20 {
		t.Errorf("%d bytes were read", read)
	}
}

type endless struct{ read *int }

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	*e.read += len(p)
	return len(p), nil
}

// Half a minute of silence, before the answer or within it, ends at the deadline
// of each call.
func TestSilenceEndsAtTheDeadline(t *testing.T) {
	silent := map[string]roundTripper{
		"before the answer": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
		"within the answer": func(r *http.Request) (*http.Response, error) {
			answer := respond(200, "")
			answer.Body, answer.ContentLength = io.NopCloser(silence{r.Context()}), 1000
			return answer, nil
		},
	}
	for name, answer := range silent {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := dial(t, 0, answer)
				start := time.Now()
				_, _, err := client.GetServer(t.Context(), zone, serverID)
				if took := time.Since(start); !cloud.IsUnavailable(err) || took != 8*time.Second {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}

type silence struct{ ctx context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func TestASilentServerOnTheNetwork(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	client, err := scaleway.New(scaleway.Options{AccessKey: accessKey, SecretKey: secretKey, ProjectID: projectID, APIURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := client.RebootServer(ctx, zone, serverID); !cloud.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func FuzzServerDecoding(f *testing.F) {
	for _, seed := range []string{
		serverBody(nil), `{"id":"` + serverID + `","ip":"x"}`, `{"servers":[` + serverBody(nil) + `],"total_count":1}`, `{"servers":[null],"total_count":1}`,
		`{"id":"` + serverID + `","deletable_at":"never"}`, `{"os":[{"version":"1.x","supported_server_types":[null]}]}`, `{}`, `null`, `[]`, `"`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, status := range []int{200, 409, 412, 500} {
			client := dial(t, 1e6, func(*http.Request) (*http.Response, error) {
				answer := respond(status, "")
				answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				return answer, nil
			})
			for call, err := range calls(context.Background(), client) {
				if err != nil && cloud.KindOf(err) == "" {
					t.Errorf("%s: an error without a kind: %v", call, err)
				}
			}
			server, _, err := client.GetServer(context.Background(), zone, serverID)
			if err == nil && server.ID != serverID {
				t.Errorf("server %q instead of %q", server.ID, serverID)
			}
		}
	})
}

func FuzzPasswordInVncURL(f *testing.F) {
	for _, seed := range []string{
		"vnc://m1:abcDEF123456@51.159.1.2:59010", "<sealed>", "vnc://m1:<sealed>@51.159.1.2", "vnc://m1:%3Csealed%3E@x", "vnc://m1:%3csEaLeD%3e@x",
		"vnc://m1:%zz@x", "vnc://m1:a%00b@x", "vnc://m1@x", "", "//:x@", "vnc://m1:%20%20@x", "vnc://m1:a b@x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body := serverBody(map[string]any{"sudo_password": cloud.Sealed, "vnc_url": text})
		client := dial(t, 1e6, func(*http.Request) (*http.Response, error) { return respond(200, body), nil })
		_, credentials, err := client.GetServer(context.Background(), zone, serverID)
		if err != nil {
			t.Fatal(err)
		}
		password := credentials.Password.Reveal()
		if strings.Contains(strings.ToLower(password), cloud.Sealed) || strings.ContainsAny(password, " \t\r\n\x00\x1b") || len(password) > 128 {
			t.Errorf("%q was taken from %q", password, text)
		}
		if u, err := url.Parse(strings.ToValidUTF8(text, "\ufffd")); password != "" && (err != nil || u.User == nil) {
			t.Errorf("%q was taken from %q, which holds none", password, text)
		}
	})
}
