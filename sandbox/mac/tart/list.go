package tart

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// field is one key and its value, in the order tart prints them.
type field struct {
	key   string
	value any
}

// swiftObject renders fields as Swift's pretty printer does: a blank before the colon
// and slashes escaped.
func swiftObject(indent string, fields []field) (string, error) {
	var lines []string
	for _, f := range fields {
		value, err := json.Marshal(f.value)
		if err != nil {
			return "", fmt.Errorf("encoding %s: %w", f.key, err)
		}
		lines = append(lines, fmt.Sprintf("%s  %q : %s", indent, f.key, strings.ReplaceAll(string(value), "/", `\/`)))
	}
	return indent + "{\n" + strings.Join(lines, ",\n") + "\n" + indent + "}", nil
}

// listing is one row of list.
type listing struct {
	source, name string
	vm           vmDir
}

// lister is what shows VMs.
type lister struct{ *cli }

func (c lister) list(ctx context.Context, args []string) error {
	a := newArguments("list [--source <source>] [--format <format>] [--quiet]")
	source := a.String("source", "", "")
	format := a.String("format", "text", "")
	quiet := a.BoolP("quiet", "q", false, "")
	if _, err := a.parse(args, 0, 0); err != nil {
		return err
	}
	if *source != "" && *source != "local" && *source != "oci" {
		return a.wrong("'%s' is not a valid <source>", *source)
	}
	if *format != "text" && *format != "json" {
		return a.wrong("The value '%s' is invalid for '--format <format>'", *format)
	}
	rows, err := c.rows(*source)
	if err != nil {
		return err
	}
	text, err := c.renderRows(rows, *format, *quiet)
	if err != nil {
		return err
	}
	return c.printList(ctx, text)
}

// printList is where the faults of list strike.
func (c lister) printList(ctx context.Context, text string) error {
	hangs, err := c.plan.fires(ListHangs, "")
	if err != nil {
		return err
	}
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	truncated, err := c.plan.fires(ListTruncated, "")
	if err != nil {
		return err
	}
	if truncated {
		text = text[:len(text)/2]
	}
	c.printf("%s", text)
	return nil
}

// rows are the local VMs, then the images, each sorted by name.
func (c lister) rows(source string) ([]listing, error) {
	var rows []listing
	if source != "oci" {
		vms, err := c.home.locals()
		if err != nil {
			return nil, err
		}
		for _, vm := range vms {
			rows = append(rows, listing{"local", vm.name(), vm})
		}
	}
	if source != "local" {
		images, err := c.home.cached()
		if err != nil {
			return nil, err
		}
		for _, i := range images {
			if i.dir.complete() {
				rows = append(rows, listing{"OCI", i.name, i.dir})
			}
		}
	}
	return rows, nil
}

func (c lister) renderRows(rows []listing, format string, quiet bool) (string, error) {
	switch {
	case quiet:
		return namesOf(rows), nil
	case format == "text":
		return c.table(rows)
	case len(rows) == 0:
		return "[\n\n]\n", nil
	}
	var objects []string
	for _, r := range rows {
		object, err := swiftObject("  ", c.fields(r))
		if err != nil {
			return "", err
		}
		objects = append(objects, object)
	}
	return "[\n" + strings.Join(objects, ",\n") + "\n]\n", nil
}

func namesOf(rows []listing) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r.name + "\n")
	}
	return b.String()
}

func (c lister) fields(r listing) []field {
	_, allocated := r.vm.sizes()
	state := r.vm.state()
	fields := []field{
		{"Source", r.source},
		{"Name", r.name},
		{"Disk", c.shownDisk(r.vm) / 1_000_000_000},
		{"Size", allocated / 1_000_000_000},
	}
	if c.plan.minor() < 31 {
		fields = append(fields, field{"SizeOnDisk", allocated / 1_000_000_000})
	} else {
		fields = append(fields, field{"Accessed", r.vm.accessed().Format(time.RFC3339)})
	}
	return append(fields, field{"Running", state == "running"}, field{"State", state})
}

func (c lister) table(rows []listing) (string, error) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	_, _ = fmt.Fprintln(w, "Source\tName\tDisk\tSize\tState")
	for _, r := range rows {
		_, allocated := r.vm.sizes()
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.source, r.name, c.size(c.shownDisk(r.vm)), c.size(allocated), r.vm.state())
	}
	err := w.Flush()
	return b.String(), err
}

// size is a column of text output: whole gigabytes, with units after 2.35.
func (c lister) size(bytes int64) string {
	if c.plan.minor() < stackedMinor {
		return fmt.Sprint(bytes / 1_000_000_000)
	}
	value, unit := float64(bytes), 0
	for ; value >= 1000 && unit < 3; unit++ {
		value /= 1000
	}
	return fmt.Sprintf("%.0f %s", value, []string{"B", "kB", "MB", "GB"}[unit])
}

func (c lister) get(_ context.Context, args []string) error {
	a := newArguments("get <name> [--format <format>]")
	format := a.String("format", "text", "")
	words, err := a.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if *format != "text" && *format != "json" {
		return a.wrong("The value '%s' is invalid for '--format <format>'", *format)
	}
	vm, err := c.home.local(words[0])
	if err != nil {
		return err
	}
	vm.touch()
	cfg, err := vm.readConfig()
	if err != nil {
		return err
	}
	fields := c.details(vm, cfg)
	if *format == "json" {
		object, err := swiftObject("", fields)
		c.printf("%s\n", object)
		return err
	}
	for _, f := range fields {
		c.printf("%-10s %v\n", f.key, f.value)
	}
	return nil
}

// details are what get prints. Size is a string with three decimals, where list has an
// integer; there is no name.
func (c lister) details(vm vmDir, cfg vmConfig) []field {
	_, allocated := vm.sizes()
	state := vm.state()
	return []field{
		{"OS", cfg.OS},
		{"CPU", cfg.CPUCount},
		{"Memory", cfg.MemorySize / mebibyte},
		{"Disk", c.shownDisk(vm) / 1_000_000_000},
		{"DiskFormat", cfg.DiskFormat},
		{"Size", fmt.Sprintf("%.3f", float64(allocated)/1e9)},
		{"Display", cfg.Display.String()},
		{"Running", state == "running"},
		{"State", state},
	}
}
