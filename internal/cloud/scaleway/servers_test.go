package scaleway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/cloud"
)

func TestGetServer(t *testing.T) {
	client, v := start(t, map[string][]answer{"GET " + serverPath: {jsonAnswer(200, serverBody(nil))}})
	got, credentials, err := client.GetServer(context.Background(), zone, serverID)
	if err != nil {
		t.Fatal(err)
	}
	want := cloud.Server{
		ID: serverID, Zone: zone, Name: "tuist-pool-1", Type: "M2-L", Status: cloud.StatusReady, Delivered: true,
		OSName: "macos-tahoe-26.0", OSFamily: "tahoe", IP: "51.159.1.2", SSHUser: "m1",
		DeletableAt: time.Date(2026, 3, 6, 8, 25, 47, 808092000, time.UTC), Commitment: "duration_24h",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("server (-want +got):\n%s", diff)
	}
	if credentials.SSHUser != "m1" || credentials.Password.Reveal() != "abcDEF123456" {
		t.Errorf("credentials of %s are not those of the answer", credentials.SSHUser)
	}
	if asked := v.requests(); len(asked) != 1 {
		t.Errorf("one read took %v", asked)
	}
}

func TestRequirement003_SealedIsMissing(t *testing.T) {
	rows := map[string]struct{ sudo, vnc, want string }{
		"clear":                           {"abcDEF123456", "vnc://m1:abcDEF123456@51.159.1.2:59010", "abcDEF123456"},
		"sealed, clear in the URL":        {"<sealed>", "vnc://m1:fromURL12345@51.159.1.2:59010", "fromURL12345"},
		"empty, clear in the URL":         {"", "vnc://m1:fromURL12345@51.159.1.2:59010", "fromURL12345"},
		"both sealed whole":               {"<sealed>", "<sealed>", ""},
		"sealed within the URL":           {"<sealed>", "vnc://m1:<sealed>@51.159.1.2:59010", ""},
		"sealed and escaped in the URL":   {"<sealed>", "vnc://m1:%3Csealed%3E@51.159.1.2:59010", ""},
		"sealed, URL without a password":  {"<sealed>", "vnc://51.159.1.2:59010", ""},
		"both empty":                      {"", "", ""},
		"blank":                           {"  ", "vnc://m1:@51.159.1.2:59010", ""},
		"sealed, URL that is not a URL":   {"<sealed>", "vnc://m1:%zz@x", ""},
		"sealed with blanks, sealed user": {" <sealed> ", "vnc://<sealed>@51.159.1.2", ""},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			body := serverBody(map[string]any{"sudo_password": row.sudo, "vnc_url": row.vnc})
			client, _ := start(t, map[string][]answer{"GET " + serverPath: {jsonAnswer(200, body)}})
			_, credentials, err := client.GetServer(context.Background(), zone, serverID)
			if err != nil {
				t.Fatal(err)
			}
			if got := credentials.Password.Reveal(); got != row.want || credentials.Password.Present() != (row.want != "") {
				t.Errorf("password %q, want %q", got, row.want)
			}
		})
	}
}

func TestListServersReadsAllPagesOfTheProjectOnce(t *testing.T) {
	page := func(from, to int) string {
		var servers []string
		for i := from; i < to; i++ {
			servers = append(servers, serverBody(map[string]any{"id": fmt.Sprintf("00000000-0000-4000-8000-%012d", i)}))
		}
		return fmt.Sprintf(`{"servers":[%s],"total_count":5}`, strings.Join(servers, ","))
	}
	client, v := start(t, map[string][]answer{
		// The second page repeats a server of the first, as when one was added between them.
		"GET " + serversPath: {jsonAnswer(200, page(0, 2)), jsonAnswer(200, page(1, 3)), jsonAnswer(200, page(3, 4))},
	})
	servers, err := client.ListServers(context.Background(), zone)
	if err != nil || len(servers) != 4 {
		t.Fatalf("%d servers, %v", len(servers), err)
	}
	for i, asked := range v.requests() {
		u, err := url.Parse(strings.TrimPrefix(asked, "GET "))
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if q.Get("page") != fmt.Sprint(i+1) || q.Get("page_size") != "100" || q.Get("project_id") != projectID {
			t.Errorf("request %d asks %v", i, q)
		}
	}
	if n := len(v.requests()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

func TestALaterPageThatFailsIsAskedForOnceMore(t *testing.T) {
	page := func(id string) answer {
		return jsonAnswer(200, fmt.Sprintf(`{"servers":[%s],"total_count":2}`, serverBody(map[string]any{"id": id})))
	}
	one, two := page("00000000-0000-4000-8000-000000000001"), page("00000000-0000-4000-8000-000000000002")
	failed := jsonAnswer(500, `{"message":"internal error"}`)
	for name, row := range map[string]struct {
		answers  []answer
		want     int
		requests int
	}{
		"page 2 fails once":  {[]answer{one, failed, two}, 2, 3},
		"page 2 fails twice": {[]answer{one, failed, failed, two}, 0, 3},
		"page 1 fails":       {[]answer{failed, one, two}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			client, v := start(t, map[string][]answer{"GET " + serversPath: row.answers})
			servers, err := client.ListServers(context.Background(), zone)
			if len(servers) != row.want || (err == nil) != (row.want > 0) || len(v.requests()) != row.requests {
				t.Errorf("%d servers after %d requests, %v", len(servers), len(v.requests()), err)
			}
		})
	}
}

func TestListServersFailsWhole(t *testing.T) {
	for name, second := range map[string]answer{
		"page 2 fails":         jsonAnswer(500, `{"message":"internal error"}`),
		"page 2 has no body":   jsonAnswer(200, ""),
		"page 2 has no id":     jsonAnswer(200, `{"servers":[{}],"total_count":2}`),
		"page 2 has a null":    jsonAnswer(200, `{"servers":[null],"total_count":2}`),
		"page 2 has no list":   jsonAnswer(200, `{"message":"hello"}`),
		"page 2 is cut":        jsonAnswer(200, `{"servers":[{"id":`),
		"page 2 is of a proxy": {200, "text/html", "<html>"},
	} {
		t.Run(name, func(t *testing.T) {
			first := jsonAnswer(200, fmt.Sprintf(`{"servers":[%s],"total_count":2}`, serverBody(nil)))
			client, _ := start(t, map[string][]answer{"GET " + serversPath: {first, second}})
			if servers, err := client.ListServers(context.Background(), zone); err == nil {
				t.Errorf("got %d servers and no error", len(servers))
			}
		})
	}
}

func TestAListThatNeverEndsIsNone(t *testing.T) {
	body := fmt.Sprintf(`{"servers":[%s],"total_count":4000000000}`, serverBody(nil))
	client := dial(t, 1e6, func(*http.Request) (*http.Response, error) { return respond(200, body), nil })
	if servers, err := client.ListServers(context.Background(), zone); !cloud.IsUnavailable(err) {
		t.Errorf("%d servers, %v", len(servers), err)
	}
}

func TestIdentifiersThatWouldLeaveThePathAreRefused(t *testing.T) {
	client, v := start(t, nil)
	ctx := context.Background()
	for _, id := range []string{"", "../runners/abc", serverID + "/reboot", serverID + "?x=1"} {
		_, _, get := client.GetServer(ctx, zone, id)
		_, remove := client.DeleteServer(ctx, zone, id)
		for call, err := range map[string]error{
			"get": get, "delete": remove,
			"rename": client.RenameServer(ctx, zone, id, "m"), "reinstall": client.ReinstallServer(ctx, zone, id, ""),
		} {
			if cloud.KindOf(err) != cloud.KindInvalid {
				t.Errorf("%s of %q: %v", call, id, err)
			}
		}
	}
	for _, badZone := range []string{"", "fr-par-1/servers", "..", "mars"} {
		_, list := client.ListServers(ctx, badZone)
		_, image := client.FindOS(ctx, badZone, "tahoe", "")
		_, _, get := client.GetServer(ctx, badZone, serverID)
		for call, err := range map[string]error{
			"list": list, "image": image, "get": get, "check": client.CheckAccess(ctx, badZone),
		} {
			if !cloud.IsUnknownZone(err) {
				t.Errorf("%s in %q: %v", call, badZone, err)
			}
		}
	}
	if asked := v.requests(); len(asked) != 0 {
		t.Errorf("the vendor was asked %v", asked)
	}
}

func TestWritesSendWhatTheyMean(t *testing.T) {
	const image = "78b5dee3-3327-4329-b987-b6df82650ca6"
	sealed := jsonAnswer(200, serverBody(map[string]any{"sudo_password": "<sealed>", "vnc_url": "<sealed>"}))
	client, v := start(t, map[string][]answer{"PATCH " + serverPath: {sealed}, "POST " + serverPath + "/reinstall": {sealed}})
	ctx := context.Background()
	for name, err := range map[string]error{
		"rename": client.RenameServer(ctx, zone, serverID, "fleet-a"), "reinstall": client.ReinstallServer(ctx, zone, serverID, image),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := client.ReinstallServer(ctx, zone, serverID, ""); err != nil {
		t.Error(err)
	}
	sent := strings.Join(v.bodies, "\n")
	for _, want := range []string{`{"name":"fleet-a"}`, `{"os_id":"` + image + `","enable_kext":false}`, `{"enable_kext":false}`} {
		if !strings.Contains(sent, want) {
			t.Errorf("%s was not sent:\n%s", want, sent)
		}
	}
}

func TestManyWorkersShareAClient(t *testing.T) {
	client, v := start(t, map[string][]answer{"GET " + serverPath: {jsonAnswer(200, serverBody(nil))}})
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			if _, _, err := client.GetServer(context.Background(), zone, serverID); err != nil {
				t.Error(err)
			}
		})
	}
	workers.Wait()
	if n := len(v.requests()); n != 8 {
		t.Errorf("%d requests, want 8", n)
	}
}

func TestCheckAccess(t *testing.T) {
	client, v := start(t, map[string][]answer{"GET " + serversPath: {
		jsonAnswer(200, `{"servers":[],"total_count":0}`), recordedErrors()["denied_authentication"].answer, recordedErrors()["invalid zone"].answer,
	}})
	var kinds []cloud.Kind
	for range 3 {
		kinds = append(kinds, cloud.KindOf(client.CheckAccess(context.Background(), zone)))
	}
	if diff := cmp.Diff([]cloud.Kind{"", cloud.KindUnauthorized, cloud.KindUnknownZone}, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if !strings.Contains(v.requests()[0], "project_id="+projectID) {
		t.Errorf("asked %v", v.requests())
	}
}
