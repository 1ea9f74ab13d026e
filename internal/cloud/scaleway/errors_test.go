package scaleway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/internal/cloud"
)

// recordedErrors are the shapes of facts/scaleway-api.md §2.1.
func recordedErrors() map[string]struct {
	answer
	kind cloud.Kind
} {
	type row = struct {
		answer
		kind cloud.Kind
	}
	return map[string]row{
		"permissions_denied":     {jsonAnswer(403, `{"details":[{"action":"read","resource":"server"}],"message":"insufficient permissions","type":"permissions_denied"}`), cloud.KindForbidden},
		"precondition_failed":    {jsonAnswer(412, `{"help_message":"this server cannot be deleted before 2025-04-12 13:24:33.836482 +0000 UTC","message":"precondition is not respected","precondition":"unknown_precondition","type":"precondition_failed"}`), cloud.KindFloor},
		"412 of another type":    {jsonAnswer(412, `{"message":"precondition is not respected","type":"something_new"}`), cloud.KindFloor},
		"412 of a proxy":         {answer{412, "text/html", "<html>no</html>"}, cloud.KindFloor},
		"out_of_stock":           {jsonAnswer(503, `{"message":"resource is out of stock","resource":"server","type":"out_of_stock"}`), cloud.KindOutOfStock},
		"denied_authentication":  {jsonAnswer(401, `{"message":"authentication is denied","method":"api_key","reason":"not_found","type":"denied_authentication"}`), cloud.KindUnauthorized},
		"not_found":              {jsonAnswer(404, `{"message":"resource is not found","resource":"server","resource_id":"x","type":"not_found"}`), cloud.KindNotFound},
		"404 of another type":    {jsonAnswer(404, `{"message":"resource is not found","type":"something_new"}`), cloud.KindNotFound},
		"408":                    {jsonAnswer(408, `{"message":"request timeout"}`), cloud.KindUnavailable},
		"408 of a proxy":         {answer{408, "text/html", "<html>late</html>"}, cloud.KindUnavailable},
		"404 of a proxy":         {answer{404, "text/plain", "404"}, cloud.KindUnavailable},
		"transient_state":        {jsonAnswer(409, `{"current_state":"reinstalling","message":"resource is in a transient state","resource":"server","resource_id":"x","type":"transient_state"}`), cloud.KindTransient},
		"409 of another type":    {jsonAnswer(409, `{"message":"resource already exists","type":"already_exists"}`), cloud.KindTransient},
		"invalid_arguments":      {jsonAnswer(400, `{"details":[{"argument_name":"project_id","help_message":"value must be a valid UUID","reason":"format"}],"message":"invalid argument(s)","type":"invalid_arguments"}`), cloud.KindInvalid},
		"invalid zone":           {jsonAnswer(400, `{"details":[{"argument_name":"zone","help_message":"zone is not available","reason":"constraint"}],"message":"invalid argument(s)","type":"invalid_arguments"}`), cloud.KindUnknownZone},
		"quotas_exceeded":        {jsonAnswer(403, `{"details":[{"current":10,"quota":10,"resource":"server"}],"message":"quota(s) exceeded for this resource","type":"quotas_exceeded"}`), cloud.KindQuota},
		"locked":                 {jsonAnswer(423, `{"message":"locked","resource":"server","resource_id":"x","type":"locked"}`), cloud.KindLocked},
		"resource_expired":       {jsonAnswer(410, `{"expired_since":"2026-03-05T08:25:47.808092Z","resource":"server","resource_id":"x","type":"resource_expired"}`), cloud.KindNotFound},
		"429 without a body":     {answer{429, "", ""}, cloud.KindThrottled},
		"429 empty but JSON":     {jsonAnswer(429, ""), cloud.KindThrottled},
		"too_many_requests":      {jsonAnswer(429, `{"help_message":"slow down","type":"too_many_requests"}`), cloud.KindThrottled},
		"500":                    {jsonAnswer(500, `{"message":"internal error"}`), cloud.KindUnavailable},
		"502 broken JSON":        {jsonAnswer(502, `{"mess`), cloud.KindUnavailable},
		"200 without a body":     {jsonAnswer(200, ""), cloud.KindUnavailable},
		"200 of another server":  {jsonAnswer(200, `{"id":"99999999-2222-3333-4444-555555555555"}`), cloud.KindUnavailable},
		"200 without an id":      {jsonAnswer(200, `{}`), cloud.KindUnavailable},
		"200 of a captive proxy": {answer{200, "text/html", "<html>hello</html>"}, cloud.KindUnavailable},
		"302 elsewhere":          {answer{302, "text/html", ""}, cloud.KindUnavailable},
	}
}

func TestEachErrorShapeHasItsKind(t *testing.T) {
	for name, row := range recordedErrors() {
		t.Run(name, func(t *testing.T) {
			client, _ := start(t, map[string][]answer{"GET " + serverPath: {row.answer}, "PATCH " + serverPath: {row.answer}})
			_, _, err := client.GetServer(context.Background(), zone, serverID)
			checkKind(t, err, row.kind)
			if row.status == http.StatusTooManyRequests {
				return // the next call would wait out the pause
			}
			checkKind(t, client.RenameServer(context.Background(), zone, serverID, "m-1"), row.kind)
		})
	}
}

// The SDK's types carry what the vendor explains; a match by status alone would
// lose it.
func TestTypedErrorsKeepTheVendorsWords(t *testing.T) {
	for name, want := range map[string]string{
		"precondition_failed": "this server cannot be deleted before 2025-04-12 13:24:33.836482 +0000 UTC",
		"transient_state":     "server is in the transient state reinstalling",
		"invalid_arguments":   "project_id: value must be a valid UUID",
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := start(t, map[string][]answer{"GET " + serverPath: {recordedErrors()[name].answer}})
			_, _, err := client.GetServer(context.Background(), zone, serverID)
			var ours *cloud.Error
			if !errors.As(err, &ours) || ours.Message != want {
				t.Errorf("got %v, want the message %q", err, want)
			}
		})
	}
}

func checkKind(t *testing.T, err error, want cloud.Kind) {
	t.Helper()
	if got := cloud.KindOf(err); got != want {
		t.Fatalf("kind %q of %v, want %q", got, err, want)
	}
	text := err.Error()
	for _, never := range []string{secretKey, "abcDEF123456", "\n", "<html>"} {
		if strings.Contains(text, never) {
			t.Errorf("the text %q holds %q", text, never)
		}
	}
	if !strings.Contains(text, serverID) || !strings.Contains(text, "request-7") {
		t.Errorf("the text %q names neither the server nor the request", text)
	}
}

func TestNoAnswerIsUnavailable(t *testing.T) {
	client, _ := start(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := client.ReinstallServer(ctx, zone, serverID, "")
	if !cloud.IsUnavailable(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

const scheduled = "delete, then schedule"

// The error of requirement 000, word for word, in both shapes the SDK has for it.
func TestRequirement000_DeletionFloorSchedulesTheDeletion(t *testing.T) {
	const text = "scaleway-sdk-go: precondition failed: unknown precondition, this server cannot be deleted before 2026-06-12 07:06:59"
	shapes := map[string]answer{
		"typed":    jsonAnswer(412, `{"help_message":"this server cannot be deleted before 2026-06-12 07:06:59","message":"precondition is not respected","precondition":"unknown_precondition","type":"precondition_failed"}`),
		"response": jsonAnswer(412, `{"message":"this server cannot be deleted before 2026-06-12 07:06:59"}`),
	}
	for name, refusal := range shapes {
		t.Run(name, func(t *testing.T) {
			client, v := start(t, map[string][]answer{
				"DELETE " + serverPath: {refusal},
				"PATCH " + serverPath:  {jsonAnswer(200, serverBody(map[string]any{"deletion_scheduled": true}))},
			})
			got, err := client.DeleteServer(context.Background(), zone, serverID)
			if err != nil || !got {
				t.Fatalf("%s: scheduled %v, %v", scheduled, got, err)
			}
			if len(v.asked) != 2 || v.bodies[1] != `{"schedule_deletion":true}` {
				t.Errorf("asked %v with %v", v.asked, v.bodies)
			}
		})
	}
	t.Run("the SDK's text", func(t *testing.T) {
		refused := &scw.PreconditionFailedError{
			Precondition: "unknown_precondition", HelpMessage: "this server cannot be deleted before 2026-06-12 07:06:59",
		}
		if refused.Error() != text {
			t.Errorf("the SDK says %q now, the requirement saw %q", refused.Error(), text)
		}
		if status := (*scw.ResponseError)(nil); errors.As(refused, &status) {
			t.Error("the typed error has a status now; the match by type could be dropped")
		}
	})
}

func TestDeleteServerWithoutAFloor(t *testing.T) {
	for name, row := range map[string]struct {
		answer
		kind cloud.Kind
	}{
		"deleted":   {answer{204, "", ""}, ""},
		"forbidden": {recordedErrors()["permissions_denied"].answer, cloud.KindForbidden},
		"missing":   {recordedErrors()["not_found"].answer, cloud.KindNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			client, v := start(t, map[string][]answer{"DELETE " + serverPath: {row.answer}})
			got, err := client.DeleteServer(context.Background(), zone, serverID)
			if got || cloud.KindOf(err) != row.kind || (row.kind == "" && err != nil) || len(v.requests()) != 1 {
				t.Errorf("scheduled %v, %v after %v", got, err, v.requests())
			}
		})
	}
}

func TestThrottlingPausesTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the second call may come late on a busy machine
		asked := 0
		client := dial(t, 0, func(*http.Request) (*http.Response, error) {
			if asked++; asked == 1 {
				return respond(429, ""), nil
			}
			return respond(200, serverBody(nil)), nil
		})
		if _, _, err := client.GetServer(t.Context(), zone, serverID); !cloud.IsThrottled(err) {
			t.Fatalf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // the pause is 500 ms at least
		defer cancel()
		if _, _, err := client.GetServer(ctx, zone, serverID); !cloud.IsThrottled(err) {
			t.Fatalf("got %v", err)
		}
		if asked != 1 {
			t.Errorf("the vendor was asked %d times within the pause", asked)
		}
	})
}
