package macos

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// pmset is the power management of this Mac, through the command of that name.
type pmset struct{}

var _ Power = pmset{}

const pmsetCommand = "/usr/bin/pmset"

// Settings implements Power.
func (pmset) Settings(ctx context.Context) (map[string]string, error) {
	out, err := run(ctx, pmsetCommand, "-g", "custom")
	if err != nil {
		return nil, err
	}
	return parsePower(out), nil
}

// Set implements Power.
func (pmset) Set(ctx context.Context, settings map[string]string) error {
	args := []string{"-a"}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, name, settings[name])
	}
	_, err := run(ctx, pmsetCommand, args...)
	return err
}

// acPower heads the settings for mains power; a portable has others after it.
const acPower = "AC Power:"

// parsePower reads the settings for mains power from what pmset -g custom says.
// A value may be followed by remarks in parentheses.
func parsePower(text string) map[string]string {
	settings := map[string]string{}
	mains := false
	for line := range strings.SplitSeq(text, "\n") {
		fields := strings.Fields(line)
		switch {
		case strings.HasSuffix(strings.TrimSpace(line), ":"):
			mains = strings.TrimSpace(line) == acPower
		case mains && len(fields) >= 2:
			settings[fields[0]] = fields[1]
		}
	}
	return settings
}
