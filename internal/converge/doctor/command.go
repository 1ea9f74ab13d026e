package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// Command is the verb `doctor`.
func Command() *cobra.Command {
	var asJSON, all bool
	var user string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look at this Mac and say what would keep it from being a node; change nothing",
		Long: "Looks at the Mac it runs on, changes nothing, and needs neither a cluster nor an installation.\n" +
			"Run it with sudo to have everything looked at. It ends with 1 when there is a problem.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			r := Examine(c.Context(), Options{
				Mac: macos.Local(), Commands: macos.LocalCommands{}, Root: os.Geteuid() == 0, User: user,
				Invoker: os.Getenv("SUDO_USER"),
			})
			if err := write(c.OutOrStdout(), r, asJSON, all); err != nil {
				return err
			}
			if r.Problems() > 0 {
				return &sick{}
			}
			return nil
		},
		SilenceUsage: true,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&all, "questions", false, "print what no look at a Mac answers, too")
	c.Flags().StringVar(&user, "user", "", "the console user (default: the agent's, else whoever is logged in, else who called sudo)")
	return c
}

// sick ends the program with 1; the report has said why.
type sick struct{}

func (*sick) Error() string { return "there are problems" }

// ExitCode of the program.
func (*sick) ExitCode() int { return 1 }

func write(w io.Writer, r Report, asJSON, questions bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(w, text(r, questions))
	return err
}

// text is the report for people.
func text(r Report, questions bool) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-14s  %-16s  %s: %s\n", f.Verdict, f.ID, f.Title, f.Evidence)
		if f.Consequence != "" {
			fmt.Fprintf(&b, "%34s%s\n", "", f.Consequence)
		}
		if f.Remedy != "" {
			fmt.Fprintf(&b, "%34sdo: %s\n", "", f.Remedy)
		}
	}
	fmt.Fprintf(&b, "\n%d problems, %d warnings, %d unknown, %d well, %d not applicable.\n",
		r.Problems(), r.count(Warning), r.count(Unknown), r.count(Well), r.count(NotApplicable))
	if !r.Root {
		b.WriteString("Not everything could be seen: run it with sudo.\n")
	}
	if questions {
		b.WriteString("\nNo look at a Mac answers these:\n")
		for _, q := range r.Questions {
			fmt.Fprintf(&b, "%-4s %s\n     %s\n", q.ID, q.Question, q.Answer)
		}
	}
	return b.String()
}
