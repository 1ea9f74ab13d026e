// Command report writes the tables of docs/figures.md from the figures that are committed below
// docs/figures, as benches wrote them in one run: go run ./test/bench/report. With names of files
// that benches have written it takes these there first: go run ./test/bench/report bench/*.json
// With -to it writes the tables of these files alone, and leaves the book as it is.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/macfleet/macfleet/test/bench/figure"
)

func main() {
	if err := run(".", os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// run takes figures into the book below root, and renews its page.
func run(root string, args []string) error {
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	to := f.String("to", "", "file for the tables alone; the book stays as it is")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *to != "" {
		return tables(*to, f.Args())
	}
	for _, file := range f.Args() {
		if err := take(root, file); err != nil {
			return err
		}
	}
	page, err := pageOf(root)
	if err != nil {
		return err
	}
	return os.WriteFile(pagePath(root), []byte(page), 0o644)
}

// tables writes those of some files into one.
func tables(to string, files []string) error {
	var page strings.Builder
	for _, file := range files {
		r, err := figure.Read(file)
		if err != nil {
			return err
		}
		if isReport(r) {
			fmt.Fprintf(&page, "## %s\n\n%s\n", r.Part, r.Markdown())
		}
	}
	return os.WriteFile(to, []byte(page.String()), 0o644)
}

func pagePath(root string) string { return filepath.Join(root, "docs", "figures.md") }

// take copies figures into the book, unless they are of a commit that nobody can look at.
func take(root, file string) error {
	r, err := figure.Read(file)
	if err != nil {
		return err
	}
	if !isReport(r) {
		return nil
	}
	if strings.HasSuffix(r.Commit, figure.Changed) {
		return fmt.Errorf("%s was measured on commit %s: commit, and measure that", file, r.Commit)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading figures: %w", err)
	}
	to := filepath.Join(root, "docs", "figures", r.Part+".json")
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("making the folder of the figures: %w", err)
	}
	return os.WriteFile(to, text, 0o644)
}

// isReport is false of what lies there beside reports, as what make scale writes.
func isReport(r *figure.Report) bool { return r.Part != "" && len(r.Figures) > 0 }

// reports are those that are committed.
func reports(root string) (map[string]*figure.Report, error) {
	files, err := filepath.Glob(filepath.Join(root, "docs", "figures", "*.json"))
	if err != nil {
		return nil, err
	}
	all := map[string]*figure.Report{}
	for _, file := range files {
		r, err := figure.Read(file)
		if err != nil {
			return nil, err
		}
		if !isReport(r) {
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(file), ".json"); r.Part != want {
			return nil, fmt.Errorf("%s has the figures of %q", file, r.Part)
		}
		all[r.Part] = r
	}
	return all, nil
}

// pageOf is the book's page with the figures that are committed.
func pageOf(root string) (string, error) {
	page, err := os.ReadFile(pagePath(root))
	if err != nil {
		return "", fmt.Errorf("reading the page: %w", err)
	}
	all, err := reports(root)
	if err != nil {
		return "", err
	}
	return figure.Fill(string(page), all)
}
