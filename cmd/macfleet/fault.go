package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

const faultExamples = `  # the next order finds no Mac in stock
  macfleet sandbox fault arm --call CreateServer --error out_of_stock --count 1

  # no server can be deleted yet: 412, as before its floor
  macfleet sandbox fault arm --call DeleteServer --error precondition_failed

  # a reinstall starts, and its answer is lost on the way
  macfleet sandbox fault arm --call ReinstallServer --after --drop --count 1`

func newFault(flags *sandboxFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "fault",
		Short:   "Break the simulated vendor, call by call",
		Long:    "Faults spoil the calls to the sandbox's simulated Scaleway that they match, before or after\ntheir effect, so that you can watch the fleet live with it.",
		Example: faultExamples,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q: see %s --help", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newFaultList(flags), newFaultArm(flags), newFaultClear(flags))
	return cmd
}

func newFaultList(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "The faults that are armed or used up, and how often they hit", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var known struct {
				Faults []scaleway.Fault `json:"faults"`
				Used   []scaleway.Fault `json:"used"`
			}
			if err := flags.control(cmd.Context(), http.MethodGet, "/sandbox/faults", nil, &known); err != nil {
				return err
			}
			return printFaults(cmd.OutOrStdout(), known.Faults, known.Used)
		},
	}
}

func newFaultArm(flags *sandboxFlags) *cobra.Command {
	var fault scaleway.Fault
	var after bool
	var delay time.Duration
	cmd := &cobra.Command{
		Use: "arm", Short: "Arm a fault", Args: noArgs, Example: faultExamples,
		Long: "Arms a fault. --call, --method, --path and --server say which calls it meets: those that fit\n" +
			"all of them. The others say what becomes of the call. Where several faults match, the one\n" +
			"armed first meets the call.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			fault.Delay = scaleway.Duration(delay)
			if after {
				fault.When = scaleway.AfterEffect
			}
			var armed scaleway.Fault
			if err := flags.control(cmd.Context(), http.MethodPost, "/sandbox/faults", fault, &armed); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s armed: %s %s, %s\n", armed.ID, faultTarget(armed), faultEffect(armed), timesLeft(armed))
			return nil
		},
	}
	set := cmd.Flags()
	set.StringVar(&fault.Call, "call", "", "the call, as the SDK names it: UpdateServer, ReinstallServer, ListServers and so on")
	set.StringVar(&fault.Method, "method", "", "an HTTP method")
	set.StringVar(&fault.Path, "path", "", "a regular expression on the URL's path")
	set.StringVar(&fault.Server, "server", "", "a server's name or identifier")
	set.StringVar(&fault.Error, "error", "", "answer with an error of the vendor's: out_of_stock, transient_state, too_many_requests and so on")
	set.IntVar(&fault.Status, "status", 0, "answer with an HTTP status and no body")
	set.StringVar(&fault.Garbage, "garbage", "", "answer with garbage: html, empty, truncated, wrong-id, wrong-type or huge")
	set.BoolVar(&fault.Drop, "drop", false, "close the connection")
	set.BoolVar(&fault.Silence, "silence", false, "never answer")
	set.DurationVar(&delay, "delay", 0, "answer late")
	set.BoolVar(&after, "after", false, "after the call's effect, not before it")
	set.IntVar(&fault.Count, "count", 0, "how many calls it meets; 0 is until it is cleared")
	set.Float64Var(&fault.Probability, "probability", 0, "how likely it meets a call, between 0 and 1; 0 is always")
	return cmd
}

func newFaultClear(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use: "clear [ID]", Short: "Forget one fault, or all of them",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError{fmt.Errorf("unexpected argument %q: see %s --help", args[1], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/sandbox/faults"
			if len(args) > 0 {
				path += "/" + url.PathEscape(args[0])
			}
			var done struct {
				Cleared int `json:"cleared"`
			}
			if err := flags.control(cmd.Context(), http.MethodDelete, path, nil, &done); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "cleared %d\n", done.Cleared)
			return nil
		},
	}
}

// control asks the running sandbox's vendor through its control API. What it finds
// wrong with the request is a mistake in what was typed.
func (f *sandboxFlags) control(ctx context.Context, method, path string, request, answer any) error {
	running, err := f.running()
	if err != nil {
		return err
	}
	var body io.Reader = http.NoBody
	if request != nil {
		text, err := json.Marshal(request)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	asked, err := http.NewRequestWithContext(ctx, method, running.VendorURL+path, body)
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Do(asked)
	if err != nil {
		return fmt.Errorf("asking the simulated vendor: %w", err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNoContent:
		return nil
	case response.StatusCode < 300:
		return json.NewDecoder(response.Body).Decode(answer)
	}
	var refused struct {
		Error string `json:"error"`
	}
	if err := json.NewDecoder(response.Body).Decode(&refused); err != nil {
		return fmt.Errorf("asking the simulated vendor: it answered %s", response.Status)
	}
	if response.StatusCode >= 500 {
		return errors.New(refused.Error)
	}
	return usageError{&refusal{status: response.StatusCode, text: refused.Error}}
}

// refusal is what the control API finds wrong with a request.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func printFaults(out io.Writer, armed, used []scaleway.Fault) error {
	if len(armed)+len(used) == 0 {
		_, err := fmt.Fprintln(out, "no fault is armed")
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "ID\tCALLS\tWHAT HAPPENS\tLEFT\tHITS")
	row := func(f scaleway.Fault, left string) {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\n", f.ID, faultTarget(f), faultEffect(f), left, f.Hits)
	}
	for _, f := range armed {
		row(f, timesLeft(f))
	}
	for _, f := range used {
		row(f, "used up")
	}
	return table.Flush()
}

// faultTarget says in words which calls a fault meets.
func faultTarget(f scaleway.Fault) string {
	words := []string{}
	for _, word := range []string{f.Call, f.Method, f.Path} {
		if word != "" {
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		words = append(words, "every call")
	}
	if f.Server != "" {
		words = append(words, "of", f.Server)
	}
	return strings.Join(words, " ")
}

// faultEffect says in words what becomes of a call.
func faultEffect(f scaleway.Fault) string {
	words := []string{f.When + " the effect:"}
	if f.Probability > 0 {
		words = append(words, "with probability", strconv.FormatFloat(f.Probability, 'g', -1, 64))
	}
	if f.Delay > 0 {
		words = append(words, "held for", time.Duration(f.Delay).String())
	}
	if f.Status != 0 {
		words = append(words, strconv.Itoa(f.Status))
	}
	switch {
	case f.Silence:
		words = append(words, "no answer")
	case f.Drop:
		words = append(words, "connection closed")
	case f.Garbage != "":
		words = append(words, "garbage", f.Garbage)
	case f.Error != "":
		words = append(words, f.Error)
	}
	return strings.Join(words, " ")
}

func timesLeft(f scaleway.Fault) string {
	switch f.Count {
	case 0:
		return "until cleared"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", f.Count)
}
