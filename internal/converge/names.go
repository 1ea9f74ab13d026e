package converge

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// maxLabel is the length of a DNS label, RFC 1035.
const maxLabel = 63

// names gives the Mac the name of its Machine.
type names struct{ *step.Env }

func (n names) step() step.Step {
	name := n.Desired.Host.Name
	wanted := []struct {
		name  macos.Name
		value string
	}{
		{macos.HostName, name},
		{macos.LocalHostName, label(name)},
		{macos.ComputerName, name},
	}
	return step.Step{
		Name:  "names",
		About: "Gives the Mac the name of its Machine: HostName, LocalHostName and ComputerName.",
		Undo:  "`scutil --set HostName NAME`, and likewise for the other two. The names from before are not kept.",
		Check: func(ctx context.Context) ([]string, error) {
			var all []string
			for _, w := range wanted {
				got, err := n.Mac.Names.Get(ctx, w.name)
				if err != nil {
					return nil, fmt.Errorf("reading %s: %w", w.name, err)
				}
				if got != w.value && !(w.name == macos.LocalHostName && isRenamed(got, w.value)) {
					all = append(all, fmt.Sprintf("%s is %.64q", w.name, got))
				}
			}
			return all, nil
		},
		Act: func(ctx context.Context) error {
			for _, w := range wanted {
				if err := n.Mac.Names.Set(ctx, w.name, w.value); err != nil {
					return fmt.Errorf("setting %s: %w", w.name, err)
				}
			}
			return nil
		},
	}
}

var notInLabel = regexp.MustCompile(`[^A-Za-z0-9-]+`)

// label makes a Bonjour name of a Node's name: one DNS label.
func label(name string) string {
	s := strings.Trim(notInLabel.ReplaceAllString(name, "-"), "-")
	return strings.Trim(s[:min(len(s), maxLabel)], "-")
}

var suffix = regexp.MustCompile(`^-[0-9]+$`)

// isRenamed reports whether Bonjour appended a number because another Mac on the
// link has the name. Setting it again would only start over.
func isRenamed(got, want string) bool {
	rest, found := strings.CutPrefix(got, want)
	return found && suffix.MatchString(rest)
}
