package tart

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// update writes the golden files anew. With MACFLEET_TART it records a real tart, which
// the simulated one of that version is then held to.
var update = flag.Bool("update", false, "write testdata/contract-<version>.txt")

// TestGoldens holds the shape of every output, by version: what differs between two
// Macs is blotted out.
func TestGoldens(t *testing.T) {
	t.Parallel()
	versions := []string{"2.30.0", "2.32.1", "2.35.0", "2.36.0"}
	if os.Getenv("MACFLEET_TART") != "" {
		versions = []string{""}
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			m, image := contractMac(t)
			m.arm(Plan{Version: version})
			m.must("clone", image, "still")
			m.must("clone", image, "live")
			m.boot("live")
			var b strings.Builder
			for _, args := range goldenCommands() {
				r := m.do(args...)
				fmt.Fprintf(&b, "$ tart %s\n%s%s[%d]\n\n", strings.Join(args, " "), r.out, r.err, r.code)
			}
			got := blot(strings.ReplaceAll(b.String(), strings.ReplaceAll(image, "/", `\/`), `$IMAGE`), image)
			path := filepath.Join("testdata", "contract-"+strings.TrimSpace(m.must("--version"))+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", path, diff)
			}
		})
	}
}

func goldenCommands() [][]string {
	var commands [][]string
	for _, line := range []string{
		"list", "list --format json", "list --source local -q", "get live", "get live --format json",
		"run live --no-graphics", "stop still", "stop nobody", "delete live", "ip still", "set still --cpu 1",
		"set still --memory 1", "clone nobody x", "suspend still",
	} {
		commands = append(commands, strings.Fields(line))
	}
	return commands
}

// blot replaces numbers, digests, times and the image's name; it keeps types and units.
func blot(text, image string) string {
	repository := image[:strings.LastIndex(image, ":")]
	for _, r := range []struct{ pattern, by string }{
		{regexp.QuoteMeta(image), "$$IMAGE"},
		{regexp.QuoteMeta(repository), "$$REPOSITORY"},
		{regexp.QuoteMeta(strings.ReplaceAll(repository, "/", `\/`)), "$$REPOSITORY"},
		{`sha256:[0-9a-f]{64}`, "sha256:$$DIGEST"},
		{`\d{4}-\d\d-\d\dT[0-9:]+Z`, "$$TIME"},
		{`(\s|"|: )\d+(\.\d+)?\b`, "${1}N"},
		{`\d+x\d+`, "NxN"},
		{` {2,}`, "  "},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.by)
	}
	return text
}
