package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/macfleet/macfleet/sandbox/world"
)

// stopTimeout bounds an orderly stop.
const stopTimeout = 60 * time.Second

// upRequest is what `up` asks of the process that holds the sandbox, on its standard
// input; the input stays open until `up` lets go.
type upRequest struct {
	Hosts     int            `json:"hosts"`
	TimeScale float64        `json:"timeScale"`
	Port      int            `json:"port"`
	Binaries  world.Binaries `json:"binaries"`
}

// letGo is the line by which `up` leaves the sandbox to itself. Without it the
// end of `up` is the end of the sandbox.
const letGo = "let go"

// event is one line that the process says to `up`.
type event struct {
	Progress string `json:"progress,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
	Error    string `json:"error,omitempty"`
}

// newServe is the process that holds the sandbox. People use `up`.
func newServe(flags *sandboxFlags) *cobra.Command {
	return &cobra.Command{
		Use: "serve", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := flags.stateDir()
			if err != nil {
				return err
			}
			// Nobody reads what is said after `up` has gone; that must not end the sandbox.
			signal.Ignore(syscall.SIGPIPE)
			events := json.NewEncoder(os.Stdout)
			if err := serve(cmd.Context(), dir, bufio.NewReader(os.Stdin), events); err != nil {
				// Whoever started us may be gone; then the log is all that is left.
				_ = events.Encode(event{Error: oneLine(err)})
				return err
			}
			return nil
		},
	}
}

func serve(ctx context.Context, dir string, stdin *bufio.Reader, events *json.Encoder) (err error) {
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	line, err := stdin.ReadBytes('\n')
	if err != nil {
		return err
	}
	var wanted upRequest
	if err := json.Unmarshal(line, &wanted); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ctx, released, wasLetGo := untilLetGo(ctx, stdin)
	defer func() {
		if !wasLetGo() { // whoever asked for it may be gone, and never comes to remove it
			err = errors.Join(err, removeStopped(dir))
		}
	}()
	w, err := world.Start(ctx, world.Options{
		Dir: dir, Binaries: wanted.Binaries, Hosts: wanted.Hosts, TimeScale: wanted.TimeScale, Port: wanted.Port,
		MetricsServer: true, AuditLog: filepath.Join(dir, "logs", "audit.log"),
		Progress: func(text string) { _ = events.Encode(event{Progress: text}) },
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop(ctx, w, dir)) }()
	if err := (state{PID: os.Getpid(), Kubeconfig: w.Kubeconfig(), VendorURL: w.VendorURL(), MetricsURL: w.MetricsURL(), ReadyURL: w.ReadyURL(), SSHPort: w.SSHPort(), Binaries: wanted.Binaries}).write(dir); err != nil {
		return err
	}
	if err := events.Encode(event{Ready: true}); err != nil {
		return err
	}
	<-released
	select {
	case <-ctx.Done():
		return nil
	case <-w.Done():
		return errors.Join(w.Err(), noteEnd(dir, w.Err()))
	}
}

// untilLetGo returns a context that ends when `up` ends before it let go, a channel
// that is closed when either has happened, and which of the two it was.
func untilLetGo(ctx context.Context, stdin *bufio.Reader) (context.Context, <-chan struct{}, func() bool) {
	ctx, cancel := context.WithCancel(ctx)
	released := make(chan struct{})
	var wasLetGo atomic.Bool
	go func() {
		defer close(released)
		line, _ := stdin.ReadString('\n')
		if line != letGo+"\n" {
			cancel()
			return
		}
		wasLetGo.Store(true)
	}()
	return ctx, released, wasLetGo.Load
}

func stop(ctx context.Context, w *world.World, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(os.Remove(statePath(dir)), w.Stop(ctx))
}
