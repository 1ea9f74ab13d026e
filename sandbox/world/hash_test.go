package world

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

// A Mac gets the agent unpacked, whichever file the manager has it from.
func TestTheAgentHasOneHashPackedOrNot(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte("agent")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("agent"))
	agent := hex.EncodeToString(sum[:])
	for _, c := range []struct{ name, file, content, want string }{
		{name: "plain", file: "tart-kubelet", content: "agent", want: agent},
		{name: "as the image has it", file: "tart-kubelet.gz", content: packed.String(), want: agent},
		{name: "cut off", file: "tart-kubelet.gz", content: packed.String()[:packed.Len()-4]},
		{name: "not packed", file: "tart-kubelet.gz", content: "agent"},
		{name: "another file", file: "tart", content: "agent"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, c.file), []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := hashAgent(dir)
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}
