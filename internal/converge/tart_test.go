package converge

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/step"
)

type entry struct {
	name string
	kind byte
	data string
	mode int64
}

func tartRelease(version string) []entry { return tartReleaseOf(version, "AAAAAAAAAA") }

func tartReleaseOf(version, team string) []entry {
	return []entry{
		{"./", tar.TypeDir, "", 0o755},
		{"LICENSE", tar.TypeReg, "text", 0o644},
		{"./tart.app/", tar.TypeDir, "", 0o777},
		{"tart.app/Contents/Info.plist", tar.TypeReg, "plist", 0o666},
		{"tart.app/Contents/MacOS/tart", tar.TypeReg, "tart " + version, 0o755},
		{"tart.app/Contents/_CodeSignature/CodeResources", tar.TypeReg, string(macostest.Build("resources of team " + team)), 0o644},
	}
}

func packed(t *testing.T, entries []entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	zip := gzip.NewWriter(&buf)
	w := tar.NewWriter(zip)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.data)), Mode: e.mode}
		if e.kind == tar.TypeSymlink {
			h.Linkname, h.Size = e.data, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg {
			if _, err := io.WriteString(w, e.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func (f *fixture) fetch(context.Context, string) (io.ReadCloser, error) {
	if f.release == nil {
		return nil, errors.New("no such host")
	}
	return io.NopCloser(bytes.NewReader(f.release)), nil
}

// wantTart asks for a release; nil is a good one of that version.
func (f *fixture) wantTart(version string, archive []byte) {
	f.t.Helper()
	if archive == nil {
		archive = packed(f.t, tartRelease(version))
	}
	f.release = archive
	f.desired.Mac.Tart = &document.Tart{
		Version: version, URL: "https://example.org/tart.tar.gz", SHA256: document.Hash(archive),
	}
}

func TestTartIsInstalled(t *testing.T) {
	f := newFixture(t)
	f.wantTart("2.28.6", nil)
	f.converge()
	if got := f.content(tartCurrent + "/Contents/MacOS/tart"); got != "tart 2.28.6" {
		t.Errorf("tart holds %q", got)
	}
	for name, want := range map[string]string{
		tartBundle("2.28.6"):                          "root:wheel 0755",
		tartBundle("2.28.6") + "/Contents/MacOS/tart": "root:wheel 0755",
		tartBundle("2.28.6") + "/Contents/Info.plist": "root:wheel 0644",
		tartCommand: "root:wheel 0755",
	} {
		info, err := f.mac.Interfaces().Files.Stat(t.Context(), name)
		if err != nil || info.Attr.String() != want {
			t.Errorf("%s is %s, want %s (%v)", name, info.Attr, want, err)
		}
	}
	f.gone(tartArchive, tartDir+"/LICENSE", tartBundle("2.28.6")+".tmp/Contents/MacOS/tart")
	f.release = nil // nothing is downloaded twice
	if r := f.converge(); r.Exit != document.ExitUnchanged {
		t.Errorf("%v", outcomes(r))
	}
}

func TestTartBeforeIsKept(t *testing.T) {
	f := newFixture(t)
	for _, version := range []string{"2.28.4", "2.28.5", "2.28.6"} {
		f.wantTart(version, nil)
		f.converge()
	}
	if err := f.mac.Interfaces().Files.Remove(tartCommand); err != nil {
		t.Fatal(err)
	}
	f.converge() // mending the same version forgets none
	f.content(tartBundle("2.28.5") + "/Contents/MacOS/tart")
	f.gone(tartBundle("2.28.4") + "/Contents/MacOS/tart")
	f.wantTart("2.28.5", nil)
	f.release = nil // going back needs no download
	f.converge()
	if got := f.content(tartCurrent + "/Contents/MacOS/tart"); got != "tart 2.28.5" {
		t.Errorf("tart holds %q", got)
	}
}

// The profile may say whose signature it must be. What is there stays until what
// replaces it is in order.
func TestTartOfAnotherTeamIsRefused(t *testing.T) {
	f := newFixture(t)
	f.wantTart("2.28.6", nil)
	f.desired.Mac.Tart.TeamID = "BBBBBBBBBB"
	f.refused("tart", document.Human, "tart 2.28.6 is not signed by team BBBBBBBBBB, and was not installed")
	f.gone(tartBundle("2.28.6")+"/Contents/MacOS/tart", tartCurrent)
	f.desired.Mac.Tart.TeamID = "AAAAAAAAAA"
	f.converge()
	// The same version, and another team from now on.
	f.desired.Mac.Tart.TeamID = "BBBBBBBBBB"
	f.refused("tart", document.Human, "is not signed by team BBBBBBBBBB")
	if got := f.content(tartCurrent + "/Contents/MacOS/tart"); got != "tart 2.28.6" {
		t.Errorf("tart holds %q", got)
	}
	f.wantTart("2.28.6", packed(t, tartReleaseOf("2.28.6", "BBBBBBBBBB")))
	f.desired.Mac.Tart.TeamID = "BBBBBBBBBB"
	f.converge()
}

// A URL of a profile is https; so is what its server leads to.
func TestDownloadsAreHTTPSOnly(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "evil") }))
	defer plain.Close()
	leading := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer leading.Close()
	trusting := httpsClient()
	trusting.Transport = leading.Client().Transport
	_, err := trusting.Get(leading.URL)
	if err == nil || step.ClassOf(err) != document.Human {
		t.Errorf("led to %s: %v", plain.URL, err)
	}
	if _, err := fetchHTTPS(t.Context(), plain.URL); err == nil || !strings.Contains(err.Error(), "is no https") {
		t.Errorf("%s: %v", plain.URL, err)
	}
}

func TestDamagedTartIsFetchedAgain(t *testing.T) {
	f := newFixture(t)
	f.wantTart("2.28.6", nil)
	f.converge()
	if err := f.mac.Interfaces().Files.Remove(tartBundle("2.28.6") + "/Contents/_CodeSignature"); err != nil {
		t.Fatal(err)
	}
	f.converge()
	f.content(tartCurrent + "/Contents/_CodeSignature/CodeResources")
}

func TestTartIsMissing(t *testing.T) {
	f := newFixture(t)
	if err := f.mac.Interfaces().Files.Remove(tartBrewed); err != nil {
		t.Fatal(err)
	}
	f.refused("tart", document.Human, "tart is missing")
	f.mac.Put(tartCommand, []byte("x"), step.RootAttr(0o755))
	f.converge()
}

func TestBadReleasesOfTart(t *testing.T) {
	binary := entry{"tart.app/Contents/MacOS/tart", tar.TypeReg, "x", 0o755}
	cut := packed(t, tartRelease("1"))
	for name, c := range map[string]struct {
		archive []byte
		class   document.Class
		detail  string
	}{
		"outside":   {packed(t, []entry{{"tart.app/../../../evil", tar.TypeReg, "x", 0o755}}), document.Human, "holds the path"},
		"absolute":  {packed(t, []entry{binary, {"tart.app//etc/evil", tar.TypeReg, "x", 0o755}}), document.Human, "holds the path"},
		"link":      {packed(t, []entry{{"tart.app/Contents", tar.TypeSymlink, "/etc", 0o755}, binary}), document.Human, "neither a file nor a folder"},
		"hard link": {packed(t, []entry{{"tart.app/x", tar.TypeLink, "", 0o755}}), document.Human, "neither a file nor a folder"},
		"other":     {packed(t, []entry{{"LICENSE", tar.TypeReg, "x", 0o644}}), document.Human, "holds no tart.app"},
		"text":      {[]byte("<html>"), document.Human, "no archive"},
		"cut":       {cut[:len(cut)/2], document.Human, "no archive"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.wantTart("1", c.archive)
			f.refused("tart", c.class, c.detail)
			if _, err := f.mac.Interfaces().Files.Stat(t.Context(), tartCurrent); err == nil {
				t.Error("it became the current one")
			}
			f.gone("/etc/evil", "/usr/local/evil", "/usr/local/libexec/evil")
			f.wantTart("1", nil)
			f.converge()
		})
	}
}

func TestDownloadIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		arrange func(*fixture)
		class   document.Class
		detail  string
	}{
		"other bytes": {func(f *fixture) { f.release = append(f.release, 'x') }, document.Human, "the profile wants"},
		"fewer bytes": {func(f *fixture) { f.release = f.release[:9] }, document.Human, "9 bytes"},
		"no server":   {func(f *fixture) { f.release = nil }, document.Retry, "no such host"},
		"unsigned":    {func(f *fixture) { f.wantTart("2.28.6", packed(f.t, tartRelease("2.28.6")[:5])) }, document.Human, "not signed"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.wantTart("2.28.6", nil)
			c.arrange(f)
			f.refused("tart", c.class, c.detail)
			for _, name := range []string{tartCurrent, tartBundle("2.28.6")} {
				if _, err := f.mac.Interfaces().Files.Stat(t.Context(), name); err == nil {
					t.Errorf("%s is there", name)
				}
			}
		})
	}
}

// What is cut on the way may come whole the next time.
func TestDownloadThatIsCutIsTriedAgain(t *testing.T) {
	cut := io.MultiReader(strings.NewReader("some"), iotest.ErrReader(io.ErrUnexpectedEOF))
	_, err := io.Copy(io.Discard, &checked{from: cut, want: document.Hash([]byte("something")), hash: sha256.New()})
	if !errors.Is(err, io.ErrUnexpectedEOF) || step.ClassOf(err) != document.Retry {
		t.Errorf("%s: %v", step.ClassOf(err), err)
	}
}

// A file that is not there is a mistake in the profile, and the same on each Mac.
func TestRefusedDownloads(t *testing.T) {
	for code, want := range map[int]document.Class{
		http.StatusNotFound: document.Human, http.StatusForbidden: document.Human, http.StatusGone: document.Human,
		http.StatusRequestTimeout: document.Retry, http.StatusTooManyRequests: document.Retry, http.StatusNoContent: document.Retry,
		http.StatusInternalServerError: document.Retry, http.StatusServiceUnavailable: document.Retry,
	} {
		err := refusal(&http.Response{StatusCode: code, Status: fmt.Sprint(code)})
		if step.ClassOf(err) != want || !strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Errorf("%d: %s: %v", code, step.ClassOf(err), err)
		}
	}
}

func TestDownloadIsBounded(t *testing.T) {
	endless := &checked{from: zeroes{}, want: strings.Repeat("0", 64), hash: discardHash{}}
	n, err := io.Copy(io.Discard, endless)
	if step.ClassOf(err) != document.Human || n > maxDownload+1<<20 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { return len(p), nil }

type discardHash struct{}

func (discardHash) Write(p []byte) (int, error) { return len(p), nil }
func (discardHash) Sum([]byte) []byte           { return nil }
func (discardHash) Reset()                      {}
func (discardHash) Size() int                   { return 0 }
func (discardHash) BlockSize() int              { return 1 }
