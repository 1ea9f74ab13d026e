package doctor

import (
	"context"
	"testing"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// ran notes the programs that were run.
type ran []string

func (r *ran) Output(_ context.Context, path string, _ ...string) (string, error) {
	*r = append(*r, path)
	return "", nil
}

// sudo lets the console user have root look, and a package manager lets that user
// replace tart: root must not run it.
func TestRootRunsNoTart(t *testing.T) {
	m := freshMac()
	m.Put("/opt/homebrew/bin/tart", nil, macos.Attr{Mode: 0o755, Owner: "m1", Group: "admin"})
	for _, user := range []string{"m1", "", "root"} {
		var programs ran
		Examine(t.Context(), Options{Mac: m.Interfaces(), Commands: &programs, Root: true, User: user, Invoker: user})
		for _, p := range programs {
			if p == "/opt/homebrew/bin/tart" {
				t.Errorf("as %q: root ran %s", user, p)
			}
		}
	}
}
