package e2e

import (
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/tracing/tracingtest"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// spansTellOfTheClaim: each thing that the fleet's first claim waited for is a span below what waited, and none holds
// a secret.
func (f *fleet) spansTellOfTheClaim(spans *tracingtest.Collector) {
	f.Helper()
	want := []string{
		"reconcile host", "reconcile host > vendor GetServer", "reconcile host > vendor RenameServer",
		"push", "push > ssh dial", "push > ssh probe", "push > ssh grant", "push > ssh receive", "push > ssh converge",
		"ssh converge > mac/sshd", "ssh converge > mac/firewall",
	}
	f.await("the spans of a claim", func() (string, bool) {
		tree := spans.Tree()
		missing := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return slices.Contains(tree, line) })
		return "missing: " + strings.Join(missing, ", ") + "; there are " + strings.Join(tree, ", "), len(missing) == 0
	})
	secrets := []string{scaleway.DefaultSecretKey}
	for _, server := range f.world.Vendor().Servers() {
		secrets = append(secrets, server.Password)
	}
	for _, secret := range secrets {
		if secret == "" {
			f.Error("a Mac has no password: nothing is looked for")
		} else if at := spans.Holds(secret); at != "" {
			f.Errorf("the span %s holds a secret", at)
		}
	}
}
