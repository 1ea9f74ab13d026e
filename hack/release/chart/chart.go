// Package chart packages the Helm chart as one release's: with its version, and with
// the digest of its image.
package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/macfleet/macfleet/hack/release/archive"
)

// Release is what a packaged chart says beyond its files.
type Release struct {
	// Version is the release's, with its v; Digest is the image's.
	Version, Digest string
	Made            time.Time
}

// Package writes the chart in a folder as <name>-<version>.tgz into another, and
// returns the file.
func Package(dir, into string, release Release) (string, error) {
	entries, err := archive.Tree(dir, "macfleet")
	if err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	number := strings.TrimPrefix(release.Version, "v")
	for name, lines := range map[string][]line{
		"macfleet/Chart.yaml":  {{"version:", "version: " + number}, {"appVersion:", "appVersion: " + release.Version}},
		"macfleet/values.yaml": {{"    digest:", fmt.Sprintf("    digest: %q", release.Digest)}},
	} {
		if err := rewrite(entries, name, lines); err != nil {
			return "", err
		}
	}
	file := filepath.Join(into, "macfleet-"+number+".tgz")
	return file, archive.WriteGzip(file, release.Made, entries)
}

// line is one line of a file, known by its beginning.
type line struct{ begins, written string }

// rewrite gives an entry content of its own. Each line must be there once.
func rewrite(entries []archive.Entry, name string, lines []line) error {
	for i, entry := range entries {
		if entry.Name != name {
			continue
		}
		content, err := os.ReadFile(entry.Source)
		if err != nil {
			return fmt.Errorf("reading the chart: %w", err)
		}
		text := string(content)
		for _, one := range lines {
			pattern := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(one.begins) + ".*$")
			if found := len(pattern.FindAllString(text, -1)); found != 1 {
				return fmt.Errorf("%s has %d lines that begin with %q, where one is written anew", name, found, one.begins)
			}
			text = pattern.ReplaceAllLiteralString(text, one.written)
		}
		entries[i] = archive.Entry{Name: name, Content: []byte(text)}
		return nil
	}
	return fmt.Errorf("the chart has no %s", name)
}

// AppVersion is the version that a chart's folder says.
func AppVersion(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	if err != nil {
		return "", fmt.Errorf("reading the chart: %w", err)
	}
	for text := range strings.Lines(string(content)) {
		if version, found := strings.CutPrefix(text, "appVersion:"); found {
			return strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("%s/Chart.yaml says no appVersion", dir)
}
