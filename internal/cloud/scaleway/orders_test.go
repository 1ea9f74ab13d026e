package scaleway_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/cloud"
)

const (
	rebootPath      = "POST " + serverPath + "/reboot"
	zonePath        = "/apple-silicon/v1alpha1/zones/" + zone
	diagnosticsPath = zonePath + "/connectivity-diagnostics"
	diagnosticID    = "22222222-2222-3333-4444-555555555555"
)

func TestAnOrderSendsWhatItMeans(t *testing.T) {
	sealed := jsonAnswer(200, serverBody(map[string]any{"sudo_password": "<sealed>", "vnc_url": "<sealed>", "status": "starting"}))
	client, v := start(t, map[string][]answer{"POST " + serversPath: {sealed}})
	const image = "78b5dee3-3327-4329-b987-b6df82650ca6"
	for _, order := range []cloud.ServerOrder{{Name: "order-m-1", Type: "M2-L"}, {Name: "order-m-1", Type: "M2-L", OSID: image}} {
		if id, err := client.CreateServer(context.Background(), zone, order); err != nil || id != serverID {
			t.Errorf("server %q, %v", id, err)
		}
	}
	sent := strings.Join(v.bodies, "\n")
	for _, want := range []string{`"name":"order-m-1"`, `"type":"M2-L"`, `"project_id":"` + projectID + `"`, `"commitment_type":"duration_24h"`, `"os_id":"` + image + `"`} {
		if !strings.Contains(sent, want) {
			t.Errorf("%s was not sent:\n%s", want, sent)
		}
	}
	if strings.Contains(v.bodies[0], "os_id") {
		t.Errorf("an image was sent for none: %s", v.bodies[0])
	}
	for _, order := range []cloud.ServerOrder{{Type: "M2-L"}, {Name: "m"}} {
		if _, err := client.CreateServer(context.Background(), zone, order); !cloud.IsInvalid(err) {
			t.Errorf("%+v: %v", order, err)
		}
	}
	if n := len(v.requests()); n != 2 {
		t.Errorf("%d requests: an incomplete order was sent, and the SDK invents names", n)
	}
}

func TestARefusedOrderSaysWhy(t *testing.T) {
	for name, row := range map[string]struct {
		kind cloud.Kind
		says string
	}{
		"out_of_stock":        {cloud.KindOutOfStock, "out of stock"},
		"quotas_exceeded":     {cloud.KindQuota, "quota exceeded"},
		"permissions_denied":  {cloud.KindForbidden, "insufficient permissions"},
		"invalid_arguments":   {cloud.KindInvalid, "project_id: value must be a valid UUID"},
		"500":                 {cloud.KindUnavailable, "internal error"},
		"200 without a body":  {cloud.KindUnavailable, "names no server"},
		"200 without an id":   {cloud.KindUnavailable, "names no server"},
		"429 without a body":  {cloud.KindThrottled, "429"},
		"precondition_failed": {cloud.KindFloor, "before 2025-04-12"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := start(t, map[string][]answer{"POST " + serversPath: {recordedErrors()[name].answer}})
			id, err := client.CreateServer(context.Background(), zone, cloud.ServerOrder{Name: "order-m-1", Type: "M2-L"})
			if id != "" || cloud.KindOf(err) != row.kind || !strings.Contains(err.Error(), row.says) || !strings.Contains(err.Error(), "order-m-1") {
				t.Errorf("server %q, %v; want %s that says %q", id, err, row.kind, row.says)
			}
		})
	}
}

func TestRequirement003_RebootsRefusalsAreTyped(t *testing.T) {
	ready := jsonAnswer(200, serverBody(map[string]any{"status": "rebooting", "sudo_password": "<sealed>", "vnc_url": "<sealed>"}))
	for name, row := range map[string]struct {
		answer
		want cloud.Kind
	}{
		"taken":      {ready, ""},
		"gone":       {recordedErrors()["not_found"].answer, cloud.KindNotFound},
		"busy":       {recordedErrors()["transient_state"].answer, cloud.KindTransient},
		"locked":     {recordedErrors()["locked"].answer, cloud.KindLocked},
		"failing":    {recordedErrors()["500"].answer, cloud.KindUnavailable},
		"of another": {recordedErrors()["200 of another server"].answer, cloud.KindUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			client, v := start(t, map[string][]answer{rebootPath: {row.answer}})
			if err := client.RebootServer(context.Background(), zone, serverID); cloud.KindOf(err) != row.want || (row.want == "" && err != nil) {
				t.Errorf("got %v, want kind %q", err, row.want)
			}
			if n := len(v.requests()); n != 1 {
				t.Errorf("%d requests: each one more is another reboot", n)
			}
		})
	}
}

func TestServerTypes(t *testing.T) {
	const body = `{"server_types":[null,
	 {"name":"M2-L","cpu":{"name":"Apple M2 Pro","core_count":10,"frequency":3490000000},"memory":{"capacity":16000000000,"type":"LPDDR5"},"disk":{"capacity":512000000000,"type":"SSD"}},
	 {"name":"M9-X"}]}`
	client, _ := start(t, map[string][]answer{"GET " + zonePath + "/server-types": {jsonAnswer(200, body)}})
	got, err := client.ServerTypes(context.Background(), zone)
	if err != nil {
		t.Fatal(err)
	}
	want := []cloud.ServerType{
		{Name: "M2-L", Chip: "Apple M2 Pro", Cores: 10, MemoryBytes: 16e9, DiskBytes: 512e9},
		{Name: "M9-X"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
}

func TestDiagnostics(t *testing.T) {
	ctx := context.Background()
	client, v := start(t, map[string][]answer{"POST " + diagnosticsPath: {jsonAnswer(200, `{"diagnostic_id":"`+diagnosticID+`"}`), recordedErrors()["500"].answer}})
	if id, err := client.StartDiagnostic(ctx, zone, serverID); err != nil || id != diagnosticID || v.bodies[0] != `{"server_id":"`+serverID+`"}` {
		t.Errorf("diagnostic %q after %v: %v", id, v.bodies, err)
	}
	if _, err := client.StartDiagnostic(ctx, zone, serverID); !cloud.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
	for name, row := range map[string]struct {
		body string
		want cloud.Diagnostic
	}{
		"on its way": {`{"id":"` + diagnosticID + `","status":"processing","supported_actions":[]}`, cloud.Diagnostic{}},
		"healthy": {
			`{"id":"` + diagnosticID + `","status":"completed","is_healthy":true,"health_details":{"is_server_alive":true},"supported_actions":[]}`,
			cloud.Diagnostic{Done: true, Healthy: true},
		},
		"unhealthy": {
			`{"id":"` + diagnosticID + `","status":"completed","is_healthy":false,"supported_actions":["reboot_server","reinstall_server"]}`,
			cloud.Diagnostic{Done: true, Advice: []string{"reboot_server", "reinstall_server"}},
		},
		"ended in an error": {
			`{"id":"` + diagnosticID + `","status":"error","is_healthy":true,"error_message":"no\nprobe","supported_actions":[]}`,
			cloud.Diagnostic{Done: true, Message: "no probe"},
		},
		"a status to come": {`{"id":"` + diagnosticID + `","status":"dreaming","is_healthy":true}`, cloud.Diagnostic{}},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := start(t, map[string][]answer{"GET " + diagnosticsPath + "/" + diagnosticID: {jsonAnswer(200, row.body)}})
			got, err := client.GetDiagnostic(ctx, zone, diagnosticID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("diagnostic (-want +got):\n%s", diff)
			}
		})
	}
}
