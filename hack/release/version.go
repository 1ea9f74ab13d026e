package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/macfleet/macfleet/hack/release/chart"
)

// versions are v1.2.3 and v1.2.3-something, as Go's and clusterctl's are.
var versions = regexp.MustCompile(`^v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?$`)

// checkVersion refuses a version that the chart is not of: the CRDs bear the chart's,
// and a manager compares them with the cluster's. Of two candidates with one number it
// could not say which is newer. What ends in -dev is not published.
func (r *release) checkVersion() error {
	if !versions.MatchString(r.version) {
		return fmt.Errorf("version %q: give one such as v0.1.0 or v0.1.0-rc.1", r.version)
	}
	says, err := chart.AppVersion(filepath.Join(r.root, chartDir))
	if err != nil {
		return err
	}
	if says != strings.TrimSuffix(r.version, "-dev") {
		return fmt.Errorf("version %s: charts/macfleet/Chart.yaml says appVersion %s; raise version and appVersion there, and run make generate", r.version, says)
	}
	return nil
}

// series is the v1.2 of a v1.2.3, in two numbers.
func series(version string) (major, minor string) {
	parts := versions.FindStringSubmatch(version)
	return parts[1], parts[2]
}
