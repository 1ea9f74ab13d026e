package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

func TestJudgeSystem(t *testing.T) {
	for text, want := range map[string]Verdict{
		"ProductName: macOS\nProductVersion: 26.0\nBuildVersion: 25A354\n": Well,
		"ProductName: macOS\nProductVersion: 12.7.1\n":                     Warning,
		"ProductName: macOS\nProductVersion:\n":                            Unknown,
		"":                                                                 Unknown,
	} {
		if got := judgeSystem(text).Verdict; got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestGrantsAll(t *testing.T) {
	for rules, want := range map[string]bool{
		"m1 ALL=(ALL) NOPASSWD: ALL\n":                                true,
		"m1 ALL=(ALL) NOPASSWD:ALL # for now\n":                       true,
		"# m1 ALL=(ALL) NOPASSWD: ALL\n":                              false,
		"m1 ALL=(root) NOPASSWD: /usr/local/bin/tart-kubelet leave\n": false,
		"Defaults env_reset\nm1 ALL=(ALL) NOPASSWD: ALL\n":            true,
		"m1 ALL=(ALL) ALL\n":                                          false,
	} {
		if got := grantsAll(rules); got != want {
			t.Errorf("%q: %v", rules, got)
		}
	}
}

func TestFingerprints(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ4yRvVQ5yq2lCWCVrDHvVLXTbuSOVtYQ1eCVnG3xZNn"
	got := fingerprints("# a comment\n" + key + " one\nfrom=\"10.0.0.0/8\" " + key + " two\nnonsense\nssh-rsa notbase64!\n")
	if len(got) != 2 || got[0] != got[1] || !strings.HasPrefix(got[0], "SHA256:") {
		t.Errorf("fingerprints %v", got)
	}
}

func TestListeners(t *testing.T) {
	text := `COMMAND   PID USER   FD   TYPE DEVICE SIZE/OFF NODE NAME
launchd     1 root   41u  IPv4 0x1   0t0  TCP *:22 (LISTEN)
launchd     1 root   42u  IPv6 0x2   0t0  TCP *:5900 (LISTEN)
launchd     1 root   43u  IPv4 0x3   0t0  TCP *:5900 (LISTEN)
rapportd  400 m1      8u  IPv4 0x4   0t0  TCP 127.0.0.1:49152 (LISTEN)
x         401 m1      8u  IPv6 0x4   0t0  TCP [::1]:80 (LISTEN)
short
`
	if diff := cmp.Diff([]string{"launchd:5900"}, listeners(text)); diff != "" {
		t.Error(diff)
	}
}

func TestLeases(t *testing.T) {
	now := time.Unix(0x68f00000, 0)
	text := "{\n\tname=a\n\tlease=0x68f00001\n}\n{\n\tname=b\n\tlease=0x68efffff\n}\n{\n\tlease=nonsense\n}\n"
	if got := leases(text, now); got != 1 {
		t.Errorf("%d leases", got)
	}
}

func TestExpectations(t *testing.T) {
	e := expectation{"/etc/kcpassword", 0o600, "root"}
	for name, c := range map[string]struct {
		attr macos.Attr
		well bool
	}{
		"as wanted":     {macos.Attr{Mode: 0o600, Owner: "root"}, true},
		"narrower":      {macos.Attr{Mode: 0o400, Owner: "root"}, true},
		"others read":   {macos.Attr{Mode: 0o644, Owner: "root"}, false},
		"owned by user": {macos.Attr{Mode: 0o600, Owner: "m1"}, false},
	} {
		if got := e.judge(macos.Info{Attr: c.attr}); (got == "") != c.well {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestJudgeCertificate(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Unix(1_800_000_000, 0)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "system:node:mac"}, NotBefore: from, NotAfter: from.Add(24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	held, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	// The key comes first, and must not be taken for the certificate or told.
	data := append(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: held}), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	for name, c := range map[string]struct {
		now  time.Time
		want Verdict
	}{
		"in its time": {from.Add(time.Hour), Well},
		"ended":       {from.Add(25 * time.Hour), Problem},
		"not yet":     {from.Add(-time.Hour), Problem},
	} {
		if got := judgeCertificate(data, c.now); got.Verdict != c.want || !strings.Contains(got.Evidence, "system:node:mac") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := judgeCertificate([]byte("nonsense"), from); got.Verdict != Unknown {
		t.Errorf("nonsense is %q", got.Verdict)
	}
}
