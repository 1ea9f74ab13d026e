// Package up runs etcd, the API server, the controller manager and the scheduler in one process.
//
// It prepares what they need (certificates, kubeconfigs), starts them in order, publishes cluster-info, says on
// standard output that they are ready, and stops them in the reverse order. It binds nobody to anything: who may
// join as a node, and whose certificate requests are approved, is left to whoever uses the cluster. Feature gates
// and logging are process-wide in Kubernetes, so a process holds one control plane and runs it once.
package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/macfleet/macfleet/sandbox/controlplane/internal/pki"
)

const (
	// startTimeout is how long etcd and the API server may take to be ready. A quiet machine needs 3 s; with four
	// starting at once and 28 processes that want two cores, two minutes were not enough.
	startTimeout = 10 * time.Minute
	// stopTimeout is how long stopping may take before the process ends anyway. It takes about 1 s; it never ends
	// when somebody removed the data directory under a running etcd.
	stopTimeout = 20 * time.Second
)

// Ready is the line, as JSON, that goes to standard output once everything runs.
type Ready struct {
	// Server is the address of the API server, https://127.0.0.1:PORT.
	Server string `json:"server"`
	// Kubeconfig is the path of the administrator's kubeconfig; it refers to no other file.
	Kubeconfig string `json:"kubeconfig"`
	// WebhookCertDir holds tls.crt and tls.key, signed by the cluster's authority, for webhooks on 127.0.0.1.
	WebhookCertDir string `json:"webhookCertDir"`
	// Seconds passed from start to ready.
	Seconds float64 `json:"seconds"`
}

// Main runs `controlplane up` and returns the exit code: 0 after SIGINT or SIGTERM, 1 when a component failed,
// 2 for wrong flags.
func Main(args []string, stdout, stderr io.Writer) int {
	options, err := parseOptions(args, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "controlplane up:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	go exitWhenStopHangs(ctx, stderr)
	if err := run(ctx, options, stdout); err != nil {
		fmt.Fprintln(stderr, "controlplane up:", err)
		return 1
	}
	return 0
}

func exitWhenStopHangs(ctx context.Context, stderr io.Writer) {
	<-ctx.Done()
	time.Sleep(stopTimeout)
	fmt.Fprintln(stderr, "controlplane up: stopping took too long, leaving")
	removeSockets()
	os.Exit(1)
}

func run(ctx context.Context, options Options, stdout io.Writer) error {
	began := time.Now()
	if err := prepareDir(options.Dir); err != nil {
		return err
	}
	certs, err := pki.Create(filepath.Join(options.Dir, "pki"), began)
	if err != nil {
		return err
	}
	p := &plane{options: options, certs: certs, failed: make(chan error, 4)}
	if err := p.start(ctx); err != nil {
		// An API server that is told to stop before its start-up hooks are done ends the process on the spot. Leaving
		// without a word is the same to etcd, whose data survives the end of its process at any moment.
		removeSockets()
		if ctx.Err() != nil {
			return nil // asked to stop while starting
		}
		return err
	}
	defer p.stop()
	if err := p.announce(stdout, began); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-p.failed:
		return err
	}
}

// prepareDir makes dir the working directory: sockets are named relative to it, see socketURL.
func prepareDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("creating the state directory: %w", err)
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("entering the state directory: %w", err)
	}
	return nil
}

// plane is a control plane, as far as it was started.
type plane struct {
	options Options
	certs   *pki.Bundle
	server  string
	failed  chan error
	// stops undo the steps of start, to be called last one first.
	stops []func()
}

func (p *plane) start(ctx context.Context) error {
	startCtx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	listener, err := listen(startCtx, p.options.Port)
	if err != nil {
		return err
	}
	p.server = "https://" + listener.Addr().String()
	if err := p.writeKubeconfigs(); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := p.startEtcd(startCtx); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := p.startAPIServer(startCtx, listener); err != nil {
		return err
	}
	if err := p.startControllers(); err != nil {
		return err
	}
	return p.publishClusterInfo(startCtx)
}

// startControllers starts what works through the API server: controller manager and scheduler stop together, before it.
func (p *plane) startControllers() error {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	p.stops = append(p.stops, func() { cancel(); running.Wait() })
	manage, err := newControllerManager(ctx, p.controllerManagerArgs())
	if err != nil {
		return fmt.Errorf("configuring the controller manager: %w", err)
	}
	schedule, err := newScheduler(ctx, p.schedulerArgs())
	if err != nil {
		return fmt.Errorf("configuring the scheduler: %w", err)
	}
	running.Go(func() { p.report(ctx, "controller manager", manage()) })
	running.Go(func() { p.report(ctx, "scheduler", schedule()) })
	return nil
}

// report tells that a component ended by itself. An end that was asked for is none of anybody's business.
func (p *plane) report(ctx context.Context, component string, err error) {
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("ended by itself")
	}
	select {
	case p.failed <- fmt.Errorf("%s: %w", component, err):
	default: // an earlier failure already brings everything down
	}
}

func (p *plane) stop() {
	for i := len(p.stops) - 1; i >= 0; i-- {
		p.stops[i]()
	}
	klog.Flush()
}

func (p *plane) announce(stdout io.Writer, began time.Time) error {
	line, err := json.Marshal(Ready{
		Server:         p.server,
		Kubeconfig:     p.options.adminKubeconfig(),
		WebhookCertDir: p.certs.WebhookDir(),
		Seconds:        time.Since(began).Seconds(),
	})
	if err != nil {
		return fmt.Errorf("encoding the ready line: %w", err)
	}
	if _, err := fmt.Fprintln(stdout, string(line)); err != nil {
		return fmt.Errorf("printing the ready line: %w", err)
	}
	return nil
}
