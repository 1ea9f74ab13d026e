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

// aboutFile is the file of a packaged chart that says what it is.
const aboutFile = "macfleet/Chart.yaml"

// digestAnnotation begins the line of Chart.yaml that the templates have the image's digest from.
const digestAnnotation = "  macfleet.dev/image-digest:"

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
	// Nothing of one release is in the values: they are copied and kept, and given to the next.
	err = rewrite(entries, []line{
		{"version:", "version: " + number},
		{"appVersion:", "appVersion: " + release.Version},
		{digestAnnotation, fmt.Sprintf("%s %q", digestAnnotation, release.Digest)},
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(into, "macfleet-"+number+".tgz")
	return file, archive.WriteGzip(file, release.Made, entries)
}

// line is one line of a file, known by its beginning.
type line struct{ begins, written string }

// rewrite gives the Chart.yaml content of its own. Each line must be there once.
func rewrite(entries []archive.Entry, lines []line) error {
	for i, entry := range entries {
		if entry.Name != aboutFile {
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
				return fmt.Errorf("%s has %d lines that begin with %q, where one is written anew", aboutFile, found, one.begins)
			}
			text = pattern.ReplaceAllLiteralString(text, one.written)
		}
		entries[i] = archive.Entry{Name: aboutFile, Content: []byte(text)}
		return nil
	}
	return fmt.Errorf("the chart has no %s", aboutFile)
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
