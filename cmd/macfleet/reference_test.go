package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/macfleet/macfleet/internal/booktest"
	"github.com/macfleet/macfleet/internal/cli/cluster"
)

const aboutTheCommands = `
All commands of ` + "`macfleet`" + `, which is ` + "`kubectl macfleet`" + `, too, and their flags. [The guide](../operate/cli.md) says what they are for, [which cluster and namespace](../operate/cli.md#which-cluster-which-namespace) they speak to, and what [their exit codes](../operate/cli.md#exit-codes) and [their JSON](../operate/cli.md#json) mean. Each has ` + "`--help`" + `, which says the same.

| command | what it does |
|---|---|
`

const whichCluster = "Which cluster, and as whom"

// The page in the book says what the program itself says with --help.
func TestThePageOfTheCLIIsItsHelp(t *testing.T) {
	root := newRoot()
	root.InitDefaultHelpCmd()
	root.InitDefaultVersionFlag()
	r := &commandPage{t: t, cluster: pflag.NewFlagSet("", pflag.ContinueOnError)}
	(&cluster.Flags{}).AddTo(r.cluster)
	r.add(root)
	page := booktest.Head("The CLI, command by command", "the commands of cmd/macfleet") + aboutTheCommands + r.index.String()
	page += "\n## " + whichCluster + "\n\nVerbs that speak to a cluster have kubectl's flags, with kubectl's meaning:\n"
	page += r.flags("macfleet", r.cluster, func(*pflag.Flag) bool { return true })
	booktest.Hold(t, filepath.Join("..", ".."), "reference/cli.md", page+r.sections.String())
}

// commandPage collects what the commands say of themselves.
type commandPage struct {
	t *testing.T
	// cluster are the flags of all verbs that speak to one.
	cluster         *pflag.FlagSet
	index, sections strings.Builder
}

// add adds a command and those below it, but for hidden ones.
func (p *commandPage) add(cmd *cobra.Command) {
	if cmd.Hidden {
		return
	}
	path := cmd.CommandPath()
	if strings.TrimSpace(cmd.Short) == "" {
		p.t.Errorf("%s says nothing of itself", path)
	}
	fmt.Fprintf(&p.index, "| %s | %s |\n", link(path), booktest.Words(cmd.Short))
	fmt.Fprintf(&p.sections, "\n## %s\n\n%s.\n\n```\n%s\n```\n", path, booktest.Words(cmd.Short), cmd.UseLine())
	p.sections.WriteString(prose(cmd.Long))
	if cmd.Example != "" {
		p.sections.WriteString("\nFor example:\n\n" + block(strings.Split(cmd.Example, "\n")))
	}
	p.sections.WriteString(p.flags(path, cmd.LocalNonPersistentFlags(), p.own))
	p.sections.WriteString(p.flags(path, cmd.PersistentFlags(), p.own))
	if also := p.also(cmd); len(also) > 0 {
		p.sections.WriteString("\nIt also takes " + strings.Join(also, ", and ") + ".\n")
	}
	if below := linksBelow(cmd); cmd.HasParent() && len(below) > 0 {
		p.sections.WriteString("\nIts commands are " + strings.Join(below, ", ") + ".\n")
	}
	for _, below := range cmd.Commands() {
		p.add(below)
	}
}

func linksBelow(cmd *cobra.Command) []string {
	var links []string
	for _, below := range cmd.Commands() {
		if !below.Hidden {
			links = append(links, link(below.CommandPath()))
		}
	}
	return links
}

// link leads to a command's section.
func link(path string) string {
	return fmt.Sprintf("[`%s`](#%s)", path, strings.ReplaceAll(path, " ", "-"))
}

// own says whether a flag is in the command's own table.
func (p *commandPage) own(f *pflag.Flag) bool {
	return !f.Hidden && f.Name != "help" && !p.ofCluster(f)
}

func (p *commandPage) ofCluster(f *pflag.Flag) bool {
	shared := p.cluster.Lookup(f.Name)
	return shared != nil && shared.Usage == f.Usage
}

// also are the flags that stand elsewhere on the page.
func (p *commandPage) also(cmd *cobra.Command) []string {
	var also []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if len(also) == 0 && p.ofCluster(f) {
			also = append(also, "the flags that say [which cluster, and as whom](#which-cluster-and-as-whom)")
		}
	})
	for above := cmd.Parent(); above != nil; above = above.Parent() {
		if above.HasAvailablePersistentFlags() {
			also = append(also, "the flags of "+link(above.CommandPath()))
		}
	}
	return also
}

// flags is a table of those that are wanted. One that says nothing of itself fails the test.
func (p *commandPage) flags(path string, flags *pflag.FlagSet, wanted func(*pflag.Flag) bool) string {
	p.t.Helper()
	var rows [][]string
	flags.VisitAll(func(f *pflag.Flag) {
		if !wanted(f) {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		words, value := booktest.Default(usage)
		if strings.TrimSpace(words) == "" {
			p.t.Errorf("%s --%s says nothing of itself", path, f.Name)
		}
		if value = booktest.Words(value); value == "" {
			value = booktest.Code(defaultOf(f))
		}
		rows = append(rows, []string{booktest.Code(typedAs(f, kind)), value, booktest.Words(words)})
	})
	return booktest.Table([]string{"flag", "default", "what it does"}, rows)
}

func typedAs(f *pflag.Flag, kind string) string {
	typed := "--" + f.Name
	if f.Shorthand != "" {
		typed = "-" + f.Shorthand + ", " + typed
	}
	return strings.TrimSpace(typed + " " + kind)
}

// defaultOf leaves out what is nothing.
func defaultOf(f *pflag.Flag) string {
	switch kind := f.Value.Type(); {
	case kind == "bool" && f.DefValue == "false", f.DefValue == "[]", kind == "duration" && f.DefValue == "0s":
		return ""
	}
	return f.DefValue
}

// prose is text of a terminal as Markdown: what is indented there stays as it is.
func prose(text string) string {
	var page strings.Builder
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for len(lines) > 0 {
		n, indented := 0, strings.HasPrefix(lines[0], "  ")
		for n < len(lines) && lines[n] != "" && strings.HasPrefix(lines[n], "  ") == indented {
			n++
		}
		switch {
		case n == 0:
			n = 1 // between paragraphs
		case indented:
			page.WriteString("\n" + block(lines[:n]))
		default:
			page.WriteString("\n" + booktest.Words(strings.Join(lines[:n], " ")) + "\n")
		}
		lines = lines[n:]
	}
	return page.String()
}

func block(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.TrimPrefix(line, "  ") + "\n")
	}
	return "```\n" + text.String() + "```\n"
}
