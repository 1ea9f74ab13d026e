package scaleway_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	iam "github.com/scaleway/scaleway-sdk-go/api/iam/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

const otherProject = "0f0e0d0c-0000-4000-8000-00000000000a"

func serverNames(list *applesilicon.ListServersResponse) []string {
	names := []string{}
	for _, s := range list.Servers {
		names = append(names, s.Name)
	}
	return names
}

func TestListServers(t *testing.T) {
	w := newWorld(t, scaleway.Options{PageSize: 2})
	for i := 1; i <= 5; i++ {
		w.pool(scaleway.ServerSpec{Name: fmt.Sprintf("mac-%d", i)})
		w.clock.Step(time.Second)
	}
	w.pool(scaleway.ServerSpec{Name: "theirs", ProjectID: otherProject})
	mine := scw.StringPtr(scaleway.DefaultProjectID)
	tests := map[string]struct {
		request applesilicon.ListServersRequest
		options []scw.RequestOption
		want    []string
		total   uint32
	}{
		"one page unless asked": {request: applesilicon.ListServersRequest{ProjectID: mine}, want: []string{"mac-1", "mac-2"}, total: 5},
		"all pages": {
			request: applesilicon.ListServersRequest{ProjectID: mine}, options: []scw.RequestOption{scw.WithAllPages()},
			want: []string{"mac-1", "mac-2", "mac-3", "mac-4", "mac-5"}, total: 5,
		},
		"newest first": {
			request: applesilicon.ListServersRequest{ProjectID: mine, OrderBy: applesilicon.ListServersRequestOrderByCreatedAtDesc, PageSize: scw.Uint32Ptr(3)},
			want:    []string{"mac-5", "mac-4", "mac-3"}, total: 5,
		},
		"last page": {
			request: applesilicon.ListServersRequest{ProjectID: mine, Page: scw.Int32Ptr(3)}, want: []string{"mac-5"}, total: 5,
		},
		"other project": {
			request: applesilicon.ListServersRequest{ProjectID: scw.StringPtr(otherProject)}, want: []string{"theirs"}, total: 1,
		},
		"whole organisation": {
			request: applesilicon.ListServersRequest{OrganizationID: scw.StringPtr(scaleway.DefaultOrganizationID), PageSize: scw.Uint32Ptr(1000)},
			want:    []string{"mac-1", "mac-2", "mac-3", "mac-4", "mac-5", "theirs"}, total: 6,
		},
		"other zone": {request: applesilicon.ListServersRequest{Zone: "fr-par-3"}, want: []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			list, err := w.macs.ListServers(&test.request, test.options...)
			must(t, err)
			if diff := cmp.Diff(test.want, serverNames(list)); diff != "" || list.TotalCount != test.total {
				t.Errorf("total %d, want %d\n%s", list.TotalCount, test.total, diff)
			}
		})
	}
}

func publicKey(t *testing.T, key any) string {
	t.Helper()
	public, err := ssh.NewPublicKey(key)
	must(t, err)
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
}

func newKey(t *testing.T) string {
	t.Helper()
	public, _, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	return publicKey(t, public)
}

func TestSSHKeys(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	text := newKey(t)
	create := func(name, text string) *iam.SSHKey {
		t.Helper()
		key, err := w.iam.CreateSSHKey(&iam.CreateSSHKeyRequest{Name: name, PublicKey: text})
		must(t, err)
		return key
	}
	first := create("fleet", text+" someone@example.org")
	if first.PublicKey != text {
		t.Errorf("stored %q, want it without its comment", first.PublicKey)
	}
	w.clock.Step(time.Second)
	second := create("again", text)
	if second.ID == first.ID {
		t.Error("the same key twice has one identifier")
	}
	got, err := w.iam.GetSSHKey(&iam.GetSSHKeyRequest{SSHKeyID: second.ID})
	must(t, err)
	if diff := cmp.Diff(second, got); diff != "" {
		t.Error(diff)
	}
	w.clock.Step(time.Second)
	changed, err := w.iam.UpdateSSHKey(&iam.UpdateSSHKeyRequest{SSHKeyID: second.ID, Name: scw.StringPtr("zulu"), Disabled: scw.BoolPtr(true)})
	must(t, err)
	if !changed.Disabled || changed.Name != "zulu" || !changed.UpdatedAt.After(*second.UpdatedAt) {
		t.Errorf("after the update: %+v", changed)
	}
	for name, test := range map[string]struct {
		request iam.ListSSHKeysRequest
		want    []string
	}{
		"all":        {iam.ListSSHKeysRequest{}, []string{"fleet", "zulu"}},
		"by name":    {iam.ListSSHKeysRequest{Name: scw.StringPtr("fleet")}, []string{"fleet"}},
		"disabled":   {iam.ListSSHKeysRequest{Disabled: scw.BoolPtr(true)}, []string{"zulu"}},
		"by project": {iam.ListSSHKeysRequest{ProjectID: scw.StringPtr(otherProject)}, nil},
		"ordered":    {iam.ListSSHKeysRequest{OrderBy: iam.ListSSHKeysRequestOrderByNameDesc}, []string{"zulu", "fleet"}},
		"by change":  {iam.ListSSHKeysRequest{OrderBy: iam.ListSSHKeysRequestOrderByUpdatedAtDesc}, []string{"zulu", "fleet"}},
	} {
		list, err := w.iam.ListSSHKeys(&test.request, scw.WithAllPages())
		must(t, err)
		var names []string
		for _, key := range list.SSHKeys {
			names = append(names, key.Name)
		}
		if diff := cmp.Diff(test.want, names); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	must(t, w.iam.DeleteSSHKey(&iam.DeleteSSHKeyRequest{SSHKeyID: second.ID}))
	_, err = w.iam.GetSSHKey(&iam.GetSSHKeyRequest{SSHKeyID: second.ID})
	_ = as[*scw.ResourceNotFoundError](t, err)
	_, err = w.iam.CreateSSHKey(&iam.CreateSSHKeyRequest{Name: "x", PublicKey: "not a key"})
	_ = as[*scw.InvalidArgumentsError](t, err)
}

func TestFingerprints(t *testing.T) {
	w := newWorld(t, scaleway.Options{})
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	ecdsaKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	for text, shape := range map[string][2]string{
		newKey(t):                         {"256 MD5:", " (ssh-ed25519)"},
		publicKey(t, &rsaKey.PublicKey):   {"2048 MD5:", " (ssh-rsa)"},
		publicKey(t, &ecdsaKey.PublicKey): {"384 MD5:", " (ecdsa-sha2-nistp384)"},
	} {
		key, err := w.iam.CreateSSHKey(&iam.CreateSSHKeyRequest{Name: "k", PublicKey: text})
		must(t, err)
		if !strings.HasPrefix(key.Fingerprint, shape[0]) || !strings.HasSuffix(key.Fingerprint, shape[1]) {
			t.Errorf("fingerprint %q, want %s…%s", key.Fingerprint, shape[0], shape[1])
		}
	}
}
