package stage0

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/sandbox/mac/amfi"
	"github.com/macfleet/macfleet/test/parttest"
)

const (
	teamOfTart = "AAAAAAAAAA"
	tartPlist  = `<?xml version="1.0" encoding="UTF-8"?>
<plist version="1.0"><dict><key>CFBundleExecutable</key><string>tart</string></dict></plist>`
)

// release is a tart.app whose program the team has signed.
func release(t *testing.T) []byte {
	t.Helper()
	program, err := os.ReadFile(programs.files[0])
	if err != nil {
		t.Fatal(err)
	}
	if program, err = amfi.SignByTeam(program, "dev.example.tart", teamOfTart); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(zip)
	for name, data := range map[string][]byte{"Info.plist": []byte(tartPlist), "MacOS/tart": program} {
		err := w.WriteHeader(&tar.Header{Name: "tart.app/Contents/" + name, Typeflag: tar.TypeReg, Size: int64(len(data)), Mode: 0o755})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// The profile may say which team must have signed tart; the server proves itself to
// the Mac by a certificate that it trusts, and leads it to no other that does not.
func TestTartComesByHTTPSFromItsTeam(t *testing.T) {
	parttest.Skip(t)
	b, s, d := prepared(t)
	data := release(t)
	give := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(data) })
	plain := httptest.NewServer(give)
	defer plain.Close()
	paths := http.NewServeMux()
	paths.Handle("/tart.tar.gz", give)
	paths.Handle("/moved", http.RedirectHandler(plain.URL, http.StatusFound))
	server := httptest.NewTLSServer(paths)
	defer server.Close()
	d.Join = nil
	want := document.Tart{Version: "2.32.1", URL: server.URL + "/tart.tar.gz", SHA256: document.Hash(data), TeamID: teamOfTart}
	refused := func(name string, tart document.Tart, class document.Class, says string) {
		t.Helper()
		d.Mac.Tart = &tart
		_, err := s.ConvergeInstalled(t.Context(), d, signer(d))
		var failed *remote.Failed
		if !errors.As(err, &failed) || failed.Class != class || !strings.Contains(err.Error(), "step tart") || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", name, err, says)
		}
	}
	refused("a server of nobody", want, document.Retry, "certificate")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	b.root("mkdir -p /etc/ssl")
	if err := os.WriteFile(filepath.Join(b.Root(), "private/etc/ssl/cert.pem"), authority, 0o644); err != nil {
		t.Fatal(err)
	}
	absent, moved, another := want, want, want
	absent.URL, moved.URL, another.TeamID = server.URL+"/absent", server.URL+"/moved", "BBBBBBBBBB"
	refused("no such file", absent, document.Human, "404 Not Found: look at the URL")
	refused("led to http", moved, document.Human, "is no https")
	refused("another team", another, document.Human, "tart 2.32.1 is not signed by team BBBBBBBBBB, and was not installed")
	d.Mac.Tart = &want
	if got := b.converge(s, d)["tart"]; got != document.Changed {
		t.Errorf("tart %s", got)
	}
	if _, there := b.read("/usr/local/libexec/macfleet-tart/tart-2.32.1.app/Contents/MacOS/tart"); !there {
		t.Error("tart is not there")
	}
	// It is looked at again each time, and stays until it is replaced.
	refused("another team later", another, document.Human, "is not signed by team BBBBBBBBBB")
	if _, there := b.read("/usr/local/libexec/macfleet-tart/tart-2.32.1.app/Contents/MacOS/tart"); !there {
		t.Error("tart is gone")
	}
	d.Mac.Tart = &document.Tart{Version: want.Version, URL: plain.URL, SHA256: want.SHA256}
	var invalid *document.FieldError
	if _, err := s.ConvergeInstalled(t.Context(), d, signer(d)); !errors.As(err, &invalid) || invalid.Field != "mac.tart.url" {
		t.Errorf("a plain URL: %v", err)
	}
}
