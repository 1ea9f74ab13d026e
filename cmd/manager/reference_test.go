package main

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/internal/booktest"
)

const aboutTheManager = `
The manager is one program, in the image and below ` + "`bin/`" + ` after ` + "`make build`" + `. [The chart](values.md) starts it with the flags that follow from its values; whoever starts it otherwise says them.

The vendor's credentials are no flags: ` + "`SCW_ACCESS_KEY`, `SCW_SECRET_KEY`, `SCW_DEFAULT_PROJECT_ID`" + ` and, for another address than the vendor's own, ` + "`SCW_API_URL`" + ` are files in the directory that ` + "`--vendor-credentials`" + ` names, or without it variables of the environment. Where [spans are sent](../operate/observability.md), OpenTelemetry's own variables hold, too.

It ends with 0 when it was asked to, with 1 where starting it again may help, and with 2 where a person has to change something: a flag, a credential, or the cluster that it was to start in. One line on standard error says what. What it serves is on [the page of its metrics](../operate/metrics.md).

## Flags
`

// The page in the book is what the program itself says of its flags.
func TestThePageOfTheManagerIsItsFlags(t *testing.T) {
	page := booktest.Head("The manager's flags", "the flags of cmd/manager") + aboutTheManager
	page += flagTable(t, (&settings{}).flags())
	for _, o := range oneOffs() {
		command := "manager " + o.name + " " + o.verb
		page += fmt.Sprintf("\n## %s\n\n%s\n", command, booktest.Words("It "+o.about))
		page += flagTable(t, o.flags(&settings{}, new(time.Duration)))
	}
	booktest.Hold(t, filepath.Join("..", ".."), "reference/manager.md", page)
}

// flagTable has a row for each flag. One that says nothing of itself fails the test.
func flagTable(t *testing.T, flags *flag.FlagSet) string {
	t.Helper()
	var rows [][]string
	flags.VisitAll(func(f *flag.Flag) {
		kind, usage := flag.UnquoteUsage(f)
		words, value := booktest.Default(usage)
		if strings.TrimSpace(words) == "" {
			t.Errorf("%s --%s says nothing of itself", flags.Name(), f.Name)
		}
		typed := "--" + f.Name
		if kind != "" { // a switch takes no value
			typed += " " + kind
		}
		if value = booktest.Words(value); value == "" {
			value = booktest.Code(plainTime(f.DefValue))
		}
		rows = append(rows, []string{booktest.Code(typed), value, booktest.Words(words)})
	})
	return booktest.Table([]string{"flag", "default", "what it does"}, rows)
}

// plainTime leaves the zeros out that Go ends a duration with: 6h0m0s are 6h.
func plainTime(value string) string {
	if _, err := time.ParseDuration(value); err != nil || value == "0" {
		return value
	}
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(value, zeros) {
			value = strings.TrimSuffix(value, zeros[1:])
		}
	}
	return value
}
