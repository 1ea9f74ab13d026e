package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/internal/cli/show"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/world"
)

// How much faster the vendor's time passes: a wipe of 17 minutes takes 17 seconds, and half of that
// where somebody waits for it.
const (
	upTimeScale   = 60
	demoTimeScale = 120
)

// upOptions are the flags of `up`.
type upOptions struct {
	hosts     int
	replicas  int
	timeScale float64
	port      int
	source    string
}

func (o *upOptions) register(cmd *cobra.Command, timeScale float64) {
	cmd.Flags().IntVar(&o.hosts, "hosts", 6, "how many Macs are in the vendor's pool")
	cmd.Flags().Float64Var(&o.timeScale, "time-scale", timeScale, "how much faster than in reality the vendor's time passes")
	cmd.Flags().IntVar(&o.port, "port", 0, "port of the API server on 127.0.0.1 (0: a free one)")
	cmd.Flags().StringVar(&o.source, "source", "", "the checkout to build from (default: the programs beside macfleet, else the checkout around the working directory)")
}

func newUp(flags *sandboxFlags) *cobra.Command {
	options := &upOptions{}
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Start a sandbox, and leave it running",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := newProgress(cmd.OutOrStdout())
			defer p.end()
			if !cmd.Flags().Changed("replicas") {
				options.replicas = min(options.replicas, options.hosts)
			}
			if err := up(cmd.Context(), flags, options, p); err != nil {
				return err
			}
			if options.replicas > 0 {
				p.print(fmt.Sprintf("\nThe fleet grows to %s; becoming a node takes about 20 seconds.\n", show.Count(options.replicas, "Mac")))
			}
			running, err := flags.running()
			if err != nil {
				return err
			}
			p.print(flags.tryNext(running.Kubeconfig))
			return nil
		},
	}
	options.register(cmd, upTimeScale)
	cmd.Flags().IntVar(&options.replicas, "replicas", 3, "how many Macs the fleet starts with")
	return cmd
}

// noArgs refuses arguments as a usage error.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q: see %s --help", args[0], cmd.CommandPath())}
	}
	return nil
}

func (o *upOptions) validate() error {
	switch {
	case o.hosts < 1 || o.hosts > 200:
		return usageError{fmt.Errorf("--hosts %d: a sandbox has 1 to 200 hosts", o.hosts)}
	case o.timeScale <= 0 || o.timeScale > 10_000:
		return usageError{fmt.Errorf("--time-scale %v: give a number above 0 and up to 10000", o.timeScale)}
	case o.port < 0 || o.port > 65535:
		return usageError{fmt.Errorf("--port %d is no port", o.port)}
	case o.replicas < 0 || o.replicas > o.hosts:
		return usageError{fmt.Errorf("--replicas %d: give 0 to %d, as many as there are --hosts", o.replicas, o.hosts)}
	}
	return nil
}

// up builds what is missing, starts the sandbox in a process of its own, and
// returns when it is ready. When ctx ends first, nothing stays.
func up(ctx context.Context, flags *sandboxFlags, options *upOptions, p *progress) error {
	if err := options.validate(); err != nil {
		return err
	}
	dir, err := flags.stateDir()
	if err != nil {
		return err
	}
	if err := flags.check(dir, options.port); err != nil {
		return err
	}
	prebuilt, err := beside("sandbox")
	if err != nil {
		return err
	}
	binaries, err := world.Build(ctx, world.BuildOptions{SourceDir: options.source, Prebuilt: prebuilt, Progress: p.step})
	if err != nil {
		return err
	}
	if err := launch(ctx, dir, upRequest{Hosts: options.hosts, TimeScale: options.timeScale, Port: options.port, Binaries: binaries}, p); err != nil {
		return errors.Join(err, removeStopped(dir))
	}
	if err := fill(ctx, flags, options, p); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, down(context.WithoutCancel(ctx), flags, p))
		}
		return err
	}
	p.done("the sandbox is up")
	return nil
}

// beside is what lies beside this program, wherever a link to it is.
func beside(name string) (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self)
	}
	if err != nil {
		return "", fmt.Errorf("finding this program: %w", err)
	}
	return filepath.Join(filepath.Dir(self), name), nil
}

// fill waits until the pool's hosts are known, and gives the fleet its size.
func fill(ctx context.Context, flags *sandboxFlags, options *upOptions, p *progress) error {
	running, err := flags.running()
	if err != nil {
		return err
	}
	c, err := newClient(running.Kubeconfig)
	if err != nil {
		return err
	}
	s := &story{client: c, progress: p, hosts: options.hosts}
	p.step("waiting for the pool")
	if err := s.await(ctx, "waiting for the pool", s.poolFull); err != nil {
		return err
	}
	if options.replicas == 0 {
		return nil
	}
	return scaleFleet(ctx, c, options.replicas)
}

// tryNext says what can be typed next, as the user would have to type it.
func (f *sandboxFlags) tryNext(kubeconfig string) string {
	self := os.Args[0] + " sandbox"
	if f.dir != "" {
		self += " --dir " + quotedWord(f.dir)
	}
	return fmt.Sprintf(`
  %[1]s status                     what is there, on one screen
  %[1]s kubectl get sash           the hosts
  %[1]s kubectl get samm -A        the Macs of the fleet
  %[1]s kubectl get nodes -o wide
  %[1]s down                       stop it and remove everything

  export KUBECONFIG=%[2]s
  %[3]s status                     with this, every verb and kubectl speak to it
`, self, quotedWord(kubeconfig), os.Args[0])
}

// check refuses early what would fail late.
func (f *sandboxFlags) check(dir string, port int) error {
	if err := mac.Supported(); err != nil {
		return err
	}
	held, err := lockHeld(dir)
	if err != nil {
		return err
	}
	if held {
		return fmt.Errorf("a sandbox runs in %s already: see %s, or stop it with %s", dir, f.command("status"), f.command("down"))
	}
	if err := onlyOfSandbox(dir); err != nil {
		return fmt.Errorf("%w: give another --dir", err)
	}
	// What one that ended by itself left would mix with the new one's.
	return errors.Join(checkPort(port), removeStopped(dir))
}

// launch starts the process that holds the sandbox and waits until it is ready.
func launch(ctx context.Context, dir string, wanted upRequest, p *progress) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	logs := filepath.Join(dir, "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		return fmt.Errorf("creating the sandbox's directory: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(logs, "sandbox.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the sandbox's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(self, "sandbox", "serve", "--dir", dir)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C at the terminal is ours to handle
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the sandbox: %w", err)
	}
	if err := await(ctx, cmd.Process, stdin, stdout, wanted, p); err != nil {
		// The end of its input tells the process to stop; nothing stays behind.
		return errors.Join(err, stdin.Close(), ignoreExit(cmd.Wait()))
	}
	return cmd.Process.Release()
}

// await hands the request over, follows the progress, and lets go when it is ready.
func await(ctx context.Context, process *os.Process, stdin io.Writer, stdout io.Reader, wanted upRequest, p *progress) error {
	unwatch := context.AfterFunc(ctx, func() { _ = process.Signal(syscall.SIGTERM) })
	defer unwatch()
	if err := json.NewEncoder(stdin).Encode(wanted); err != nil {
		return fmt.Errorf("talking to the sandbox: %w", err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return fmt.Errorf("understanding the sandbox: %w", err)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case e.Error != "":
			return errors.New(e.Error)
		case e.Ready:
			_, err := io.WriteString(stdin, letGo+"\n")
			return err
		default:
			p.step(e.Progress)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("the sandbox ended while starting: see sandbox.log in its directory's logs")
}

// ignoreExit drops the exit status of a process whose error was read already.
func ignoreExit(err error) error {
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		return nil
	}
	return err
}
