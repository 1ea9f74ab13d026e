package volume

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestWriteEnv(t *testing.T) {
	b := newBench(t)
	p := aPod(nil)
	if _, err := b.SetUp(t.Context(), p, Mode{Env: true}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.WriteEnv(t.Context(), p, []string{"A=it's"}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(b.ram, "u-1/secret/env")
	data, err := os.ReadFile(path)
	if d := cmp.Diff("export A='it'\\''s'\n", string(data)); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
}

// TestEnvGoesWithItsAttempt: what the next attempt does not have, its guest does not
// see either.
func TestEnvGoesWithItsAttempt(t *testing.T) {
	b := newBench(t)
	p := aPod([]corev1.Volume{secret("creds", "s")}, mount("creds", "/etc/creds"))
	if _, err := b.SetUp(t.Context(), p, Mode{Env: true}); err != nil {
		t.Fatal(err)
	}
	if err := b.WriteEnv(t.Context(), p, []string{"PASSWORD=hush"}); err != nil {
		t.Fatal(err)
	}
	setup, err := b.SetUp(t.Context(), p, Mode{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range setup.Shares {
		if data, err := os.ReadFile(filepath.Join(s.Path, envFile)); err == nil {
			t.Errorf("share %s of the next attempt still holds %q", s.Name, data)
		}
	}
}
