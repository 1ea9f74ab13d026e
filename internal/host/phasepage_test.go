package host_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/booktest"
	"github.com/macfleet/macfleet/internal/host"
)

// The page in the book is made from the table that the code runs.
func TestThePageOfPhasesIsTheTable(t *testing.T) {
	booktest.Hold(t, filepath.Join("..", ".."), "operate/phases.md", phasePage(host.Phases()))
}

func phasePage(rules []host.PhaseRule) string {
	var page strings.Builder
	page.WriteString(booktest.Head("The phases of a host", "host.Phases") + "\n`kubectl get sash` shows one word for what each Mac is doing. The word is computed anew at each look, from the Host's spec and the last reading of the server; it is never read back. So there are no transitions that could be missed: the first question below that is answered with yes decides.\n\n```mermaid\nflowchart TD\n")
	for i, rule := range rules {
		if i == len(rules)-1 {
			fmt.Fprintf(&page, "  q%d[\"any other host\"] --> p%d([%s])\n", i+1, i+1, rule.Phase)
			break
		}
		fmt.Fprintf(&page, "  q%d{\"%s?\"} -- yes --> p%d([%s])\n", i+1, rule.When, i+1, rule.Phase)
		fmt.Fprintf(&page, "  q%d -- no --> q%d\n", i+1, i+2)
	}
	var rows [][]string
	for i, rule := range rules {
		rows = append(rows, []string{strconv.Itoa(i + 1), rule.When, booktest.Code(string(rule.Phase)), rule.Meaning, rule.Next})
	}
	page.WriteString("```\n" + booktest.Table([]string{"", "the host …", "phase", "meaning", "what moves it on"}, rows))
	page.WriteString("\nWhy a host is not available, not wiped, or not yet gone stands in its conditions `" +
		strings.Join([]string{infrav1.AvailableCondition, infrav1.WipedCondition, host.RetiredCondition, host.AdoptedCondition}, "`, `") +
		"`; what to do about it is on [the page of hosts that need a person](hosts.md).\n")
	return page.String()
}
