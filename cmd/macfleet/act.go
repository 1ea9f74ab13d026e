package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cli/act"
	"github.com/macfleet/macfleet/internal/cli/screen"
)

// doer is a verb that changes something.
type doer struct {
	verb
	yes, dry bool
}

func (d *doer) add(cmd *cobra.Command) {
	d.verb.add(cmd)
	cmd.Flags().BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&d.dry, "dry-run", false, "let the API server look whether it would take this, and change nothing")
}

// errDeclined is a person's no.
var errDeclined = errors.New("nothing is changed")

// do says what will be done, asks, and does it. look makes the plan from what is there.
func (d *doer) do(cmd *cobra.Command, look func(context.Context, client.Client) (act.Plan, error)) error {
	c, err := d.cluster.Client()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	plan, err := look(ctx, c)
	if err != nil {
		return err
	}
	tell(cmd.OutOrStdout(), plan)
	if err := d.agree(cmd, plan); err != nil {
		return err
	}
	again := func(ctx context.Context) (act.Plan, error) { return look(ctx, c) }
	if err := act.Run(ctx, c, plan, d.dry, again); err != nil {
		return err
	}
	if d.dry {
		fmt.Fprintln(cmd.OutOrStdout(), "The API server would take this. Nothing is changed.")
		return nil
	}
	fmt.Fprintln(cmd.OutOrStdout(), "Done: it is recorded, and the manager does the rest.")
	return nil
}

// tell says what will be done.
func tell(out io.Writer, plan act.Plan) {
	for _, says := range plan.Lines() {
		fmt.Fprintln(out, strings.Join(screen.Of(out, os.Getenv).Wrap("- "+says, ""), "\n  "))
	}
}

// agree asks where a person can answer; anywhere else --yes has to say it. Who is asked has the
// plan before them, also where what is printed goes to a file.
func (d *doer) agree(cmd *cobra.Command, plan act.Plan) error {
	if d.yes || d.dry {
		return nil
	}
	file, is := cmd.InOrStdin().(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) {
		return usageError{errors.New("nobody can be asked here: say --yes to do this, or --dry-run to try it")}
	}
	if !screenOf(cmd).Terminal {
		tell(cmd.ErrOrStderr(), plan)
	}
	fmt.Fprint(cmd.ErrOrStderr(), "Go on? [y/N] ")
	answered := make(chan string, 1)
	go func() {
		answer, _ := bufio.NewReader(file).ReadString('\n')
		answered <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case <-cmd.Context().Done():
		return cmd.Context().Err()
	case answer := <-answered:
		if answer == "y" || answer == "yes" {
			return nil
		}
	}
	return errDeclined
}
