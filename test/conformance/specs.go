package conformance

import (
	_ "embed" // the list of specs
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed specs.yaml
var specsFile []byte

// specs are what specs.yaml says.
type specs struct {
	Focus []string  `json:"focus"`
	Small []string  `json:"small"`
	Skip  []skipped `json:"skip"`
}

// skipped are specs that Macs are not held to, and why, in words for a user.
type skipped struct {
	Match  string `json:"match"`
	Reason string `json:"reason"`
}

// parseSpecs refuses what the suite would read as something else, or as nothing.
func parseSpecs(data []byte) (specs, error) {
	var s specs
	if err := yaml.UnmarshalStrict(data, &s); err != nil {
		return s, fmt.Errorf("reading the list of specs: %w", err)
	}
	for _, list := range [][]string{s.Focus, s.Small, s.skips()} {
		for _, expression := range list {
			if _, err := regexp.Compile(expression); err != nil || expression == "" {
				return s, fmt.Errorf("%q in the list of specs is no regular expression: %w", expression, err)
			}
		}
	}
	for _, skip := range s.Skip {
		if strings.TrimSpace(skip.Reason) == "" {
			return s, fmt.Errorf("the list of specs skips %q without a reason", skip.Match)
		}
	}
	return s, nil
}

func (s specs) skips() []string {
	list := make([]string, 0, len(s.Skip))
	for _, skip := range s.Skip {
		list = append(list, skip.Match)
	}
	return list
}

// lists says whether a whole run has the spec in its table.
func (s specs) lists(name string) bool {
	return slices.ContainsFunc(s.Focus, func(focus string) bool { return regexp.MustCompile(focus).MatchString(name) })
}

// extra names the specs that ran and that a whole run leaves out, each with why it does.
func (s specs) extra(results []result) []string {
	var list []string
	for _, r := range results {
		why := s.reasonOf(r.Name)
		if !s.lists(r.Name) {
			why = "not in the list"
		}
		if why != "" && r.Outcome != left {
			list = append(list, shortName(r.Name)+": "+why)
		}
	}
	return list
}

// reasonOf says why a spec is skipped; empty: it is not, by us.
func (s specs) reasonOf(name string) string {
	for _, skip := range s.Skip {
		if regexp.MustCompile(skip.Match).MatchString(name) {
			return skip.Reason
		}
	}
	return ""
}
