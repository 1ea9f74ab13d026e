package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// completionPatience is how long a shell is let wait for names.
const completionPatience = 5 * time.Second

func newCompletion() *cobra.Command {
	shells := map[string]func(*cobra.Command, io.Writer) error{
		"bash":       func(root *cobra.Command, out io.Writer) error { return root.GenBashCompletionV2(out, true) },
		"zsh":        func(root *cobra.Command, out io.Writer) error { return root.GenZshCompletion(out) },
		"fish":       func(root *cobra.Command, out io.Writer) error { return root.GenFishCompletion(out, true) },
		"powershell": func(root *cobra.Command, out io.Writer) error { return root.GenPowerShellCompletionWithDesc(out) },
	}
	known := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Print the completion of a shell, with names from the cluster",
		Example: "  source <(macfleet completion bash)\n  macfleet completion zsh > \"${fpath[1]}/_macfleet\"\n" +
			"  macfleet completion fish > ~/.config/fish/completions/macfleet.fish\n  macfleet completion powershell | Out-String | Invoke-Expression",
		ValidArgs: known,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("say which shell: %s", strings.Join(known, ", "))}
			}
			if !slices.Contains(known, args[0]) {
				return usageError{fmt.Errorf("unknown shell %q: choose one of %s", args[0], strings.Join(known, ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return shells[args[0]](cmd.Root(), cmd.OutOrStdout()) },
	}
}

// completeNames completes the first argument with names of a kind.
func (v *verb) completeNames(kind snapshot.Kind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(cmd.Context(), v, kind), cobra.ShellCompDirectiveNoFileComp
	}
}

func (v *verb) completeNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
	defer cancel()
	c, err := v.cluster.Client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var list corev1.NamespaceList
	if err := c.List(ctx, &list, client.Limit(500)); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	for i := range list.Items {
		found = append(found, list.Items[i].Name)
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// alike is how many letters may differ in a command that is suggested.
const alike = 2

// unknownCommand names those that are like it.
func unknownCommand(cmd *cobra.Command, typed string) error {
	cmd.SuggestionsMinimumDistance = alike
	meant := ""
	if near := cmd.SuggestionsFor(typed); len(near) > 0 {
		meant = ", did you mean " + strings.Join(near, ", or ") + "?"
	}
	return usageError{fmt.Errorf("unknown command %q%s: see %s --help", typed, meant, cmd.CommandPath())}
}

// unknownTopic is what cobra would answer with the help of whatever it does know.
func unknownTopic(cmd *cobra.Command) error {
	if rest := cmd.Flags().Args(); len(rest) > 0 && cmd.HasSubCommands() {
		return unknownCommand(cmd, rest[0])
	}
	return nil
}

// newHelp is `macfleet help COMMAND`, which knows when there is none.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			topic, rest, err := cmd.Root().Find(args)
			if err != nil || topic == nil {
				return usageError{errors.New("unknown command " + fmt.Sprintf("%q", strings.Join(args, " ")) + ": see macfleet --help")}
			}
			if len(rest) > 0 && topic.HasSubCommands() {
				return unknownCommand(topic, rest[0])
			}
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
	}
}
