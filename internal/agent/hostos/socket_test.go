package hostos

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSocketPaths(t *testing.T) {
	for name, dir := range map[string]string{"short": "", "long": strings.Repeat("a-long-way/", 30)} {
		t.Run(name, func(t *testing.T) {
			short, err := os.MkdirTemp("/tmp", "t")
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(short)
			path := filepath.Join(short, dir, "agent.sock")
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			l, err := ListenUnix(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ListenUnix(path); err == nil {
				t.Error("two listen on one path")
			}
			go func() {
				if conn, err := l.Accept(); err == nil {
					_, _ = conn.Write([]byte("x"))
					conn.Close()
				}
			}()
			conn, err := DialUnix(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if n, err := conn.Read(make([]byte, 8)); n != 1 || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after close: %v", err)
			}
			if _, err := DialUnix(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("dial after close: %v", err)
			}
			if left := links(t, filepath.Dir(path)); len(left) > 0 {
				t.Errorf("short ways left behind: %v", left)
			}
		})
	}
}

// links are the short ways to a directory. Others may have theirs at the same time.
func links(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob("/tmp/macfleet-s*/d")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(found, func(link string) bool {
		to, err := os.Readlink(link)
		return err != nil || to != dir
	})
}
