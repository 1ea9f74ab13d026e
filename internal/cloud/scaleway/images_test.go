package scaleway_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/cloud"
)

const imagesBody = `{"os":[
 {"id":"1","name":"macos-sequoia-15.2","family":"Sequoia","version":"15.2","supported_server_types":[{"server_type":"M2-L"}]},
 {"id":"2","name":"macos-sequoia-15.10","family":"Sequoia","version":"15.10","supported_server_types":[{"server_type":"M2-M"},{"server_type":"M2-L"}]},
 {"id":"3","name":"macos-sequoia-15.9.1","family":"Sequoia","version":"15.9.1","supported_server_types":[{"server_type":"M2-L"}]},
 {"id":"4","name":"macos-sequoia-16","family":"Sequoia","version":"16.0","is_beta":true,"supported_server_types":[{"server_type":"M2-L"}]},
 {"id":"5","name":"macos-sequoia-15.11","family":"Sequoia","version":"15.11","supported_server_types":[{"server_type":"M4-S"}]},
 {"id":"6","name":"macos-tahoe-26.0","family":"Tahoe","version":"26.0","supported_server_types":[{"server_type":"M2-L"}]}],
 "total_count":6}`

func TestFindOSTakesTheNewestThatRuns(t *testing.T) {
	client, _ := start(t, map[string][]answer{"GET /apple-silicon/v1alpha1/zones/" + zone + "/os": {jsonAnswer(200, imagesBody)}})
	for name, row := range map[string]struct{ family, serverType, want string }{
		"newest by number":      {"sequoia", "M2-L", "2"},
		"another type":          {"sequoia", "M4-S", "5"},
		"any type":              {"sequoia", "", "5"},
		"family in any case":    {"TAHOE", "M2-L", "6"},
		"family not published":  {"sonoma", "M2-L", ""},
		"type without an image": {"tahoe", "M4-S", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := client.FindOS(context.Background(), zone, row.family, row.serverType)
			if got.ID != row.want || cloud.IsNotFound(err) != (row.want == "") {
				t.Errorf("image %q, %v; want %q", got.ID, err, row.want)
			}
		})
	}
}

func TestNoImageAtAllIsNoAnswer(t *testing.T) {
	for _, body := range []string{`{"os":[],"total_count":0}`, `{}`} {
		client, _ := start(t, map[string][]answer{"GET /apple-silicon/v1alpha1/zones/" + zone + "/os": {jsonAnswer(200, body)}})
		if _, err := client.FindOS(context.Background(), zone, "tahoe", ""); !cloud.IsUnavailable(err) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestAMissingImageNamesWhatThereIs(t *testing.T) {
	const path = "GET /apple-silicon/v1alpha1/zones/" + zone + "/os"
	for name, row := range map[string]struct{ body, family, serverType, says string }{
		"other families":   {imagesBody, "sonoma", "M2-L", "there are images of sequoia, tahoe"},
		"of this type":     {imagesBody, "tahoe", "M4-S", "there are images of sequoia"},
		"of any type":      {imagesBody, "sonoma", "", "there are images of sequoia, tahoe"},
		"unknown type":     {imagesBody, "tahoe", "M9-X", "no image is published for this type; there are some for M2-L, M2-M, M4-S"},
		"nothing readable": {`{"os":[null,{"family":"Tahoe","supported_server_types":[null]}],"total_count":2}`, "sonoma", "M2-L", "nor any other"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := start(t, map[string][]answer{path: {jsonAnswer(200, row.body)}})
			_, err := client.FindOS(context.Background(), zone, row.family, row.serverType)
			if !cloud.IsNotFound(err) || !strings.HasSuffix(err.Error(), row.says) {
				t.Errorf("got %v, want it to say %q", err, row.says)
			}
		})
	}
}

func TestEnsureSSHKeyNeverDuplicates(t *testing.T) {
	const keys, public = "/iam/v1alpha1/ssh-keys", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me@here"
	page := func(name, key, disabled string) answer {
		return jsonAnswer(200, `{"ssh_keys":[{"id":"1","name":"`+name+`","public_key":"`+key+`","disabled":`+disabled+`}],"total_count":1}`)
	}
	for name, row := range map[string]struct {
		listed answer
		calls  int
	}{
		"there": {page("fleet", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "false"), 1},
		// Whoever registered it may take it away any day.
		"there under another name": {page("a person's", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "false"), 2},
		"another key":              {page("fleet", "ssh-ed25519 AAAAother", "false"), 2},
		"there but disabled":       {page("fleet", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5", "true"), 2},
		"none":                     {jsonAnswer(200, `{"ssh_keys":[],"total_count":0}`), 2},
	} {
		t.Run(name, func(t *testing.T) {
			client, v := start(t, map[string][]answer{
				"GET " + keys: {row.listed}, "POST " + keys: {jsonAnswer(200, `{"id":"2","public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"}`)},
			})
			if err := client.EnsureSSHKey(context.Background(), "fleet", public); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.calls, len(v.requests())); diff != "" {
				t.Errorf("calls %v", v.requests())
			}
		})
	}
	client, _ := start(t, nil)
	if err := client.EnsureSSHKey(context.Background(), "fleet", "nonsense"); cloud.KindOf(err) != cloud.KindInvalid {
		t.Errorf("got %v", err)
	}
}

func TestSSHKeysAreListedAndTakenAway(t *testing.T) {
	const keys, id = "/iam/v1alpha1/ssh-keys", "6170692e-7363-4616-8966-616c65776179"
	client, v := start(t, map[string][]answer{
		"GET " + keys: {jsonAnswer(200, `{"ssh_keys":[{"id":"`+id+`","name":"fleet","public_key":"ssh-ed25519 AAAA me@here","disabled":true},
			{"id":"2","name":"of another project","public_key":"ssh-ed25519 BBBB","project_id":"5ca1e000-0000-4000-8000-0000000000cc"}],"total_count":2}`)},
		"DELETE " + keys + "/" + id: {{status: 204}, jsonAnswer(404, `{"message":"resource is not found","resource":"ssh_key","resource_id":"`+id+`","type":"not_found"}`)},
	})
	got, err := client.ListSSHKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]cloud.SSHKey{{ID: id, Name: "fleet", PublicKey: "ssh-ed25519 AAAA", Disabled: true}}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := client.DeleteSSHKey(t.Context(), id); err != nil {
		t.Error(err)
	}
	if err := client.DeleteSSHKey(t.Context(), id); !cloud.IsNotFound(err) {
		t.Errorf("a key that is gone: %v", err)
	}
	before := len(v.requests())
	if err := client.DeleteSSHKey(t.Context(), "../servers/x"); cloud.KindOf(err) != cloud.KindInvalid || len(v.requests()) != before {
		t.Errorf("no id: %v", err)
	}
}
