package converge

import (
	"fmt"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// explanation says what each step changes on a Mac and how a person takes it back, in
// the order in which they run, as Markdown.
func explanation() string {
	o := Options{TakeOver: true}
	var b strings.Builder
	b.WriteString(`# What converge changes on a Mac, and how to undo it

This page is written by ` + "`tart-kubelet converge --explain`" + `; ` + "`hack/generate.sh`" + ` renews it.

The steps run in this order. Each looks first, changes only what differs, and
looks again. ` + "`tart-kubelet uninstall`" + ` takes them back, the last one first.
`)
	for _, s := range o.steps(o.env(document.Desired{}, &document.Report{})) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\nUndo: %s\n", s.Name, s.About, s.Undo)
	}
	return b.String()
}
