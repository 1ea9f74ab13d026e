package main

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"testing"

	terminals "github.com/creack/pty"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/cluster"
)

const (
	anAccessKey = "SCWXXXXXXXXXXXXXXXXX"
	aSecretKey  = "11111111-2222-4333-8444-555555555555"
)

// answers are those of a person at a keyboard.
type answers struct{ shown, secret string }

func (a answers) line(context.Context, string) (string, error)   { return a.shown, nil }
func (a answers) hidden(context.Context, string) (string, error) { return a.secret, nil }

func TestWhereTheVendorsKeyComesFrom(t *testing.T) {
	keyboard, terminal, err := terminals.Open()
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer keyboard.Close()
	defer terminal.Close()
	const other = "SCWAAAAAAAAAAAAAAAAA"
	for name, c := range map[string]struct {
		env   map[string]string
		piped string
		want  string
		from  string
		says  string
	}{
		"the environment":          {env: map[string]string{accessKeyVariable: anAccessKey, secretKeyVariable: aSecretKey}, piped: other + "\n" + aSecretKey, want: anAccessKey, from: "SCW_ACCESS_KEY and SCW_SECRET_KEY of the environment"},
		"half of it there":         {env: map[string]string{accessKeyVariable: anAccessKey}, piped: other + "\n" + aSecretKey + "\n", want: other, from: "what was piped"},
		"a pipe":                   {piped: other + "\r\n" + aSecretKey, want: other, from: "what was piped"},
		"a person":                 {want: anAccessKey, from: "what was typed"},
		"an empty pipe":            {piped: "\x00", says: "no key was given"},
		"the halves changed":       {piped: aSecretKey + "\n" + other, says: "the access key is not SCW"},
		"a secret key that is cut": {piped: other + "\n" + aSecretKey[1:], says: "the secret key is not a UUID: nothing was sent"},
	} {
		var in interface{ Read([]byte) (int, error) } = strings.NewReader(strings.Trim(c.piped, "\x00"))
		if c.piped == "" {
			in = terminal
		}
		key, err := vendorKey(t.Context(), func(name string) string { return c.env[name] }, in, answers{anAccessKey, aSecretKey + "\n"})
		if c.says != "" {
			if err == nil || !errors.As(err, &usageError{}) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), aSecretKey[1:]) {
				t.Errorf("%s: %v, want %q", name, err, c.says)
			}
			continue
		}
		if err != nil || key.AccessKey != c.want || key.SecretKey != aSecretKey || key.From != c.from {
			t.Errorf("%s: %s from %q, %v", name, key.AccessKey, key.From, err)
		}
	}
}

// The Secret is that of the manager which works, and no half of a key is printed but the one that names it.
func TestTheVendorsKeyIsReplaced(t *testing.T) {
	t.Setenv(accessKeyVariable, "")
	t.Setenv(secretKeyVariable, "")
	path := "/api/v1/namespaces/" + clitest.Namespace + "/secrets/macfleet-vendor"
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: vendorSecret}, Data: map[string][]byte{accessKeyVariable: []byte("SCWBBBBBBBBBBBBBBBBB"), secretKeyVariable: []byte("old")}}
	leases := map[string]any{"items": []coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: cluster.ManagerLease}}}}
	for name, c := range map[string]struct {
		args    string
		objects map[string]any
		code    int
		out     string
		errs    string
		writes  int
	}{
		"done":             {"--yes", map[string]any{"/apis/coordination.k8s.io/v1/leases": leases, path: secret}, 0, "with access key " + anAccessKey + " in place of\n  SCWBBBBBBBBBBBBBBBBB, from", "", 1},
		"nobody to ask":    {"", map[string]any{"/apis/coordination.k8s.io/v1/leases": leases, path: secret}, exitUsage, "", "--yes", 0},
		"by its namespace": {"--yes -n " + clitest.Namespace, map[string]any{path: secret}, 0, "Done", "", 1},
		"no manager":       {"--yes", map[string]any{path: secret}, exitFailed, "", "name it with -n", 0},
		"another name":     {"--secret vendor --yes -n " + clitest.Namespace, map[string]any{path: secret}, exitFailed, "", "there is no Secret", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fleetServer{objects: c.objects, codes: map[string]int{"vendor": 404}}
			speakTo(t, f)
			code, out, errs := typedTo(t, anAccessKey+"\n"+aSecretKey+"\n", append([]string{"pool", "credentials"}, strings.Fields(c.args)...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || len(f.writes) != c.writes {
				t.Errorf("exit code %d, %d writes\n%s\n%s", code, len(f.writes), out, errs)
			}
			for _, secret := range []string{aSecretKey, base64.StdEncoding.EncodeToString([]byte(aSecretKey))} {
				if strings.Contains(out+errs, secret) {
					t.Error("prints the secret key")
				}
			}
		})
	}
	if os.Getenv(secretKeyVariable) != "" {
		t.Error("the key is in the environment")
	}
}
