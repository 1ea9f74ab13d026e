package host_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

var update = flag.Bool("update", false, "write the page of phases instead of checking it")

// The page in the book is made from the table that the code runs: hack/generate.sh
// writes it, and this test fails when it was not run.
func TestThePageOfPhasesIsTheTable(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "operate", "phases.md")
	want := phasePage(host.Phases())
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("run hack/generate.sh (-want +got):\n%s", diff)
	}
}

func phasePage(rules []host.PhaseRule) string {
	var page strings.Builder
	page.WriteString(`# The phases of a host

<!-- Generated from host.Phases by hack/generate.sh. Don't edit. -->

` + "`kubectl get sash`" + ` shows one word for what each Mac is doing. The word is computed anew at each look, from the Host's spec and the last reading of the server; it is never read back. So there are no transitions that could be missed: the first question below that is answered with yes decides.

` + "```mermaid\nflowchart TD\n")
	for i, rule := range rules {
		if i == len(rules)-1 {
			fmt.Fprintf(&page, "  q%d[\"any other host\"] --> p%d([%s])\n", i+1, i+1, rule.Phase)
			break
		}
		fmt.Fprintf(&page, "  q%d{\"%s?\"} -- yes --> p%d([%s])\n", i+1, rule.When, i+1, rule.Phase)
		fmt.Fprintf(&page, "  q%d -- no --> q%d\n", i+1, i+2)
	}
	page.WriteString("```\n\n| | the host … | phase | meaning | what moves it on |\n|---|---|---|---|---|\n")
	for i, rule := range rules {
		fmt.Fprintf(&page, "| %d | %s | `%s` | %s | %s |\n", i+1, rule.When, rule.Phase, rule.Meaning, rule.Next)
	}
	page.WriteString("\nWhy a host is not available, not wiped, or not yet gone stands in its conditions `" +
		strings.Join([]string{infrav1.AvailableCondition, infrav1.WipedCondition, host.RetiredCondition, host.AdoptedCondition}, "`, `") +
		"`; what to do about it is on [the page of hosts that need a person](hosts.md).\n")
	return page.String()
}
