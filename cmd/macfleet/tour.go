package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/workload"
	"github.com/macfleet/macfleet/sandbox/world"
)

const (
	tourMacs = 2
	tourJob  = "macos-tour"
)

const tourManifest = `apiVersion: batch/v1
kind: Job
metadata: {name: ` + tourJob + `, namespace: default}
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {kubernetes.io/os: darwin}
      tolerations: [{key: tuist.dev/macos, operator: Exists}]
      containers:
        - name: build
          image: ` + demoImage + `
          command: [/bin/sh, -c, "echo building on $MAC; echo done"]
          env: [{name: MAC, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
`

// tour is a narrated run: each chapter types commands that a person could type, and goes
// on when what they bring has come.
type tour struct {
	story

	flags *sandboxFlags
	self  string
	// pause waits for the person; where nobody sits it does not.
	pause func(context.Context) error
	width screen.Screen
}

// chapter is one thing to see.
type chapter struct {
	title, says string
	// manifest is what a command reads whose file is "-".
	manifest string
	// typed are commands, of macfleet and of kubectl, from what is there.
	typed func(*snapshot.Snapshot) [][]string
	// until says when that has come; nil: at once.
	until func(*snapshot.Snapshot) (string, bool)
	// after shows what has come of it.
	after func(*snapshot.Snapshot) [][]string
}

func newTour(flags *sandboxFlags) *cobra.Command {
	options := &upOptions{}
	keep := false
	cmd := &cobra.Command{
		Use:   "tour",
		Short: "A narrated run with pauses: a job, a Mac that loses power, a rollout, a quarantine",
		Long: "Brings a sandbox up and shows, a chapter at a time, what an operator's day is made of. Each command is\n" +
			"printed as you would type it. On a terminal Enter goes on; elsewhere nothing waits.",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := newProgress(cmd.OutOrStdout())
			defer p.end()
			if options.hosts < tourMacs {
				return usageError{fmt.Errorf("--hosts %d: the tour needs %d", options.hosts, tourMacs)}
			}
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("finding this program: %w", err)
			}
			return flags.withSandbox(cmd.Context(), options, keep, "The sandbox is still up.\n", p, func(ctx context.Context, s story) error {
				t := tour{story: s, flags: flags, self: self, pause: pauseOf(cmd, p), width: screenOf(cmd)}
				return t.tell(ctx)
			})
		},
	}
	options.register(cmd, upTimeScale)
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the sandbox running at the end, and when it fails")
	return cmd
}

// pauseOf waits for Enter, where a person sits at a terminal.
func pauseOf(cmd *cobra.Command, p *progress) func(context.Context) error {
	file, is := cmd.InOrStdin().(*os.File)
	if !is || !term.IsTerminal(int(file.Fd())) || !p.terminal {
		return func(context.Context) error { return nil }
	}
	lines := bufio.NewReader(file)
	return func(ctx context.Context) error {
		p.print("\n[Enter goes on] ")
		entered := make(chan error, 1)
		go func() {
			_, err := lines.ReadString('\n')
			if errors.Is(err, io.EOF) {
				err = nil
			}
			entered <- err
		}()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-entered:
			return err
		}
	}
}

func (t *tour) tell(ctx context.Context) error {
	t.progress.print("\nThe commands below go to the sandbox. To type them yourself, in another terminal:\n\n   $ export KUBECONFIG=" + quotedWord(t.running.Kubeconfig) + "\n")
	for n, c := range t.chapters() {
		if err := t.play(ctx, n+1, c); err != nil {
			return fmt.Errorf("chapter %d, %s: %w", n+1, c.title, err)
		}
		if err := t.pause(ctx); err != nil {
			return err
		}
	}
	t.progress.print("\nThat was the tour. docs/operate in the checkout tells what to do on a bad day.\n")
	return nil
}

func (t *tour) play(ctx context.Context, n int, c chapter) error {
	t.progress.print(fmt.Sprintf("\n%d. %s\n\n%s\n\n", n, c.title, strings.Join(t.width.Wrap(c.says, "   "), "\n")))
	if c.manifest != "" {
		t.progress.print(indented(indented(c.manifest)))
	}
	if err := t.run(ctx, c.typed, c.manifest); err != nil {
		return err
	}
	if c.until != nil {
		if err := t.await(ctx, "waiting", c.until); err != nil {
			return err
		}
	}
	return t.run(ctx, c.after, "")
}

// run types the commands and prints what they print.
func (t *tour) run(ctx context.Context, commands func(*snapshot.Snapshot) [][]string, manifest string) error {
	now, err := look(ctx, t.client)
	if err != nil {
		return err
	}
	for _, args := range commands(now) {
		t.progress.print("   $ " + strings.Join(quoted(args), " ") + "\n")
		cmd := t.command(ctx, args)
		cmd.Stdin = strings.NewReader(manifest)
		output, err := cmd.CombinedOutput()
		t.progress.print(indented(indented(string(output))))
		var exited *exec.ExitError
		if err != nil && !(errors.As(err, &exited) && args[0] == "macfleet") { // it says with its code how a fleet is
			return fmt.Errorf("%s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

func quoted(words []string) []string {
	all := make([]string, len(words))
	for i, word := range words {
		all[i] = quotedWord(word)
	}
	return all
}

// command is kubectl of the sandbox's version, or this program.
func (t *tour) command(ctx context.Context, args []string) *exec.Cmd {
	if args[0] == "kubectl" {
		return t.running.Binaries.Cluster.Kubectl(ctx, t.running.Kubeconfig, args[1:]...)
	}
	cmd := exec.CommandContext(ctx, t.self, args[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+t.running.Kubeconfig)
	if args[1] == "sandbox" && t.flags.dir != "" {
		cmd.Args = append([]string{t.self, "sandbox", "--dir", t.flags.dir}, args[2:]...)
	}
	return cmd
}

// first is the Machine that the tour plays with, and its host.
func first(now *snapshot.Snapshot) (machine, host, server string) {
	for i := range now.Hosts {
		h := &now.Hosts[i]
		if h.Status.Phase == infrav1.HostInUse && h.Spec.ClaimRef != nil && (machine == "" || h.Spec.ClaimRef.Name < machine) {
			machine, host, server = h.Spec.ClaimRef.Name, h.Name, h.Status.Server.Name
		}
	}
	return machine, host, server
}

func fixed(commands ...[]string) func(*snapshot.Snapshot) [][]string {
	return func(*snapshot.Snapshot) [][]string { return commands }
}

func (t *tour) chapters() []chapter {
	kubectl := func(args ...string) []string { return append([]string{"kubectl"}, args...) }
	macfleet := func(args ...string) []string { return append([]string{"macfleet"}, args...) }
	scale := func(n int) []string {
		return kubectl("-n", world.Namespace, "scale", "machinedeployment", world.Fleet, fmt.Sprintf("--replicas=%d", n))
	}
	return []chapter{
		{
			title: "A fleet grows",
			says:  "The pool has Macs that nobody uses. Two of them become Nodes: each is claimed, renamed at the vendor, set up over SSH, rebooted once for proof, and registers itself.",
			typed: fixed(macfleet("hosts"), scale(tourMacs)),
			until: t.macsRunning,
			after: fixed(macfleet("status"), kubectl("get", "nodes")),
		},
		{
			title:    "A job runs on a Mac",
			says:     "To Kubernetes a Mac is a Node. This Job's Pod is a macOS VM; its logs and its exit code are a Pod's.",
			manifest: tourManifest,
			typed:    fixed(kubectl("create", "-f", "-")),
			until:    t.jobDone,
			after:    fixed(kubectl("logs", "job/"+tourJob)),
		},
		{
			title: "A Mac loses its power",
			says:  "The vendor shows the server as ready all the while. Its Node turns NotReady within a minute, and explain says what is known and what comes next.",
			typed: func(now *snapshot.Snapshot) [][]string {
				_, _, server := first(now)
				return [][]string{macfleet("sandbox", "mac", "off", server)}
			},
			until: t.nodesReady(tourMacs - 1),
			after: func(now *snapshot.Snapshot) [][]string {
				machine, _, _ := first(now)
				return [][]string{kubectl("get", "nodes"), macfleet("explain", "machine", machine)}
			},
		},
		{
			title: "The power is back",
			says:  "The Mac boots, its session comes back without a person, and its Node is Ready again. Nothing was wiped, and no Mac was bought.",
			typed: func(now *snapshot.Snapshot) [][]string {
				_, _, server := first(now)
				return [][]string{macfleet("sandbox", "mac", "on", server)}
			},
			until: t.nodesReady(tourMacs),
			after: func(now *snapshot.Snapshot) [][]string {
				machine, _, _ := first(now)
				return [][]string{macfleet("timeline", machine)}
			},
		},
		{
			title: "A change is rolled out",
			says:  "A profile says what the Macs of a fleet should be. A canary takes the change first; the next Mac follows when it has been well for a while.",
			typed: fixed(kubectl("-n", world.Namespace, "patch", "macnodeprofile", world.Fleet, "--type=merge", "-p", `{"spec":{"node":{"labels":{"team":"ios"}},"rollout":{"soak":"5s"}}}`)),
			until: t.rolledOut,
			after: fixed(macfleet("rollout", "status", world.Fleet), kubectl("get", "nodes", "-L", "team")),
		},
		{
			title: "A Mac is kept out",
			says:  "An operator who doubts a Mac keeps it out of the pool. Its Machine goes on; once it is released, nobody gets it.",
			typed: func(now *snapshot.Snapshot) [][]string {
				_, host, _ := first(now)
				return [][]string{macfleet("host", "quarantine", host, "--reason", "its fan is loud", "--yes")}
			},
			after: func(now *snapshot.Snapshot) [][]string {
				_, host, _ := first(now)
				return [][]string{macfleet("explain", "host", host), macfleet("host", "quarantine", host, "--end", "--yes")}
			},
		},
		{
			title: "The fleet shrinks",
			says:  "A Mac that is let go is drained, leaves the cluster, and is wiped by the vendor before anybody else gets it.",
			typed: fixed(scale(0)),
			until: t.allWiped,
			after: fixed(macfleet("hosts"), macfleet("pool", "cost")),
		},
	}
}

func (t *tour) macsRunning(now *snapshot.Snapshot) (string, bool) {
	return fmt.Sprintf("%d of %d Machines available", runningMachines(now), tourMacs), runningMachines(now) == tourMacs
}

func (t *tour) jobDone(now *snapshot.Snapshot) (string, bool) {
	for i := range now.Pods {
		if p := &now.Pods[i]; p.Labels["job-name"] == tourJob {
			return "the Pod is " + string(p.Status.Phase) + podTrouble(p), p.Status.Phase == corev1.PodSucceeded
		}
	}
	return "no Pod yet", false
}

func (t *tour) nodesReady(want int) func(*snapshot.Snapshot) (string, bool) {
	return func(now *snapshot.Snapshot) (string, bool) {
		ready := 0
		for i := range now.Nodes {
			if workload.NodeReady(&now.Nodes[i]) {
				ready++
			}
		}
		return show.Count(ready, "Node") + " ready", ready == want
	}
}

// rolledOut: the profile's condition is about the change, and True.
func (t *tour) rolledOut(now *snapshot.Snapshot) (string, bool) {
	for i := range now.Profiles {
		p := &now.Profiles[i]
		if p.Namespace != world.Namespace || p.Name != world.Fleet {
			continue
		}
		c := meta.FindStatusCondition(p.Status.Conditions, infrav1.RolledOutCondition)
		done := c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == p.Generation
		return fmt.Sprintf("%d of %d Macs have the change", p.Status.Updated, p.Status.Machines), done
	}
	return "no profile", false
}

func (t *tour) allWiped(now *snapshot.Snapshot) (string, bool) {
	available := inPhase(now, infrav1.HostAvailable)
	return fmt.Sprintf("%d wiping, %d of %d hosts available", inPhase(now, infrav1.HostWiping)+inPhase(now, infrav1.HostReleasing), available, t.hosts), available == t.hosts
}
