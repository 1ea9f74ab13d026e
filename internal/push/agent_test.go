package push

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// The image has the agent compressed; a folder of one's own may have it as it was built.
func TestReadAgent(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("agent")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"tart-kubelet": "agent", "tart-kubelet.gz": packed.String()} {
		dir := t.TempDir()
		if _, err := ReadAgent(dir, "v1"); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "tart-kubelet")) {
			t.Errorf("an empty folder: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		agent, err := ReadAgent(dir, "v1")
		if err != nil || agent.SHA256 != document.Hash([]byte("agent")) || agent.Version != "v1" {
			t.Errorf("%s: %+v, %v", file, agent, err)
		}
	}
	dir := t.TempDir()
	for _, file := range []string{"tart-kubelet", "tart-kubelet.gz"} {
		if err := os.WriteFile(filepath.Join(dir, file), packed.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadAgent(dir, "v1"); err == nil || !strings.Contains(err.Error(), "there twice: remove "+dir) {
		t.Errorf("both: %v", err)
	}
}
