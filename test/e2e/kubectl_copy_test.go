package e2e

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// entry of an archive: a file, or a link where it leads somewhere.
type entry struct{ name, text, link string }

func archive(f *fleet, entries ...entry) io.Reader {
	f.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(h); err != nil {
			f.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	return &b
}

// copiesFromAHostileGuest: what a guest answers to kubectl cp is its own tar's, and may be
// anything. kubectl writes nothing outside of where it was told to, and says so. A link that
// is copied into a guest arrives as a link, and what it leads to stays at home.
func (f *fleet) copiesFromAHostileGuest() {
	hostile := archive(f,
		entry{name: "evil/good", text: "good"},
		entry{name: "evil/../../outside", text: "outside"},
		entry{name: "evil/link", link: "../../outside"},
		entry{name: "evil/link", text: "through the link"},
	)
	got := f.try(hostile, "exec", "-i", "look", "--", "/bin/sh", "-c",
		`cat >/Users/admin/evil.tar && mkdir -p /Users/admin/bin && printf '#!/bin/sh\nexec cat /Users/admin/evil.tar\n' >/Users/admin/bin/tar && chmod +x /Users/admin/bin/tar`)
	if got.code != 0 {
		f.Fatalf("preparing: %+v", got)
	}
	top := f.TempDir()
	to := filepath.Join(top, "in", "to")
	if err := os.MkdirAll(to, 0o700); err != nil {
		f.Fatal(err)
	}
	got = f.try(nil, "cp", "look:evil", to)
	if good, err := os.ReadFile(filepath.Join(to, "good")); string(good) != "good" {
		f.Errorf("the rest: %q, %v, %+v", good, err, got)
	}
	for _, word := range []string{"outside target destination, skipping", "skipping symlink"} {
		if !strings.Contains(got.err, word) {
			f.Errorf("kubectl does not say %q: %+v", word, got)
		}
	}
	for _, path := range []string{filepath.Join(top, "outside"), filepath.Join(top, "in", "outside")} {
		if _, err := os.Lstat(path); err == nil {
			f.Errorf("%s was written", path)
		}
	}
	if got := f.try(nil, "exec", "look", "--", "rm", "-r", "/Users/admin/bin", "/Users/admin/evil.tar"); got.code != 0 {
		f.Fatalf("cleaning up: %+v", got)
	}
	f.copiesALink(top)
}

// copiesALink sends a directory with a link that leads out of it.
func (f *fleet) copiesALink(top string) {
	from := filepath.Join(top, "from")
	if err := os.MkdirAll(from, 0o700); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "secret"), []byte("secret"), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Symlink("../secret", filepath.Join(from, "link")); err != nil {
		f.Fatal(err)
	}
	if got := f.try(nil, "cp", from, "look:/Users/admin/nowhere/../there"); got.code != 0 {
		f.Fatalf("there: %+v", got)
	}
	got := f.try(nil, "exec", "look", "--", "/bin/sh", "-c", "readlink /Users/admin/there/link; cat /Users/admin/there/link")
	if !strings.HasPrefix(got.out, "../secret\n") || got.code == 0 {
		f.Errorf("the link: %+v", got)
	}
}
