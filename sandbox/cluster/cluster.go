package cluster

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
	"strconv"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/macfleet/macfleet/sandbox/subprocess"
)

// controlPlaneGrace is how long the control plane may take to stop: about a second, and it gives up itself after 20.
const controlPlaneGrace = 25 * time.Second

// Options say how to start a cluster. Binaries and Dir are required.
type Options struct {
	// Binaries come from Build.
	Binaries Binaries
	// Dir holds everything the cluster writes, sockets and certificates included. A second Start in the same directory,
	// after the first cluster stopped, finds the same objects. One cluster at a time.
	Dir string
	// LogDir takes control-plane.log and core.log; empty means "logs" in Dir.
	LogDir string
	// Port of the API server on 127.0.0.1; 0 takes a free one.
	Port int
	// AuditLog is a file for one line of metadata on each request; empty writes none.
	AuditLog string
	// APIServerArgs and ControllerManagerArgs are further flags, which win over those given anyway.
	APIServerArgs, ControllerManagerArgs []string
	// WithoutCore starts the control plane alone, without core and its CRDs.
	WithoutCore bool
}

// Cluster is a running control plane with core. Its methods may be called from several goroutines.
type Cluster struct {
	options Options
	ready   ready
	config  *rest.Config
	lock    *os.File
	ports   corePorts

	mu           sync.Mutex
	controlPlane *subprocess.Process
	core         *subprocess.Process
	err          error
	done         chan struct{}
	closeDone    sync.Once
}

// ready is what the control plane prints once it runs.
type ready struct {
	Server         string `json:"server"`
	Kubeconfig     string `json:"kubeconfig"`
	WebhookCertDir string `json:"webhookCertDir"`
}

// Start starts a cluster and returns when it can be used: the API server is ready, core's CRDs are established, its
// webhooks answer. ctx bounds the start alone. When Start fails, whatever it started has ended.
//
// Errors: ErrNotLinux, ErrInUse, *subprocess.ExitError with the log to look at, and ctx's.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if err := options.complete(); err != nil {
		return nil, err
	}
	c := &Cluster{options: options, done: make(chan struct{})}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

func (o *Options) complete() error {
	if o.Binaries.ControlPlane == "" || o.Dir == "" {
		return errors.New("a cluster needs Binaries and Dir")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("resolving the cluster's directory: %w", err)
	}
	o.Dir = dir
	if o.LogDir == "" {
		o.LogDir = filepath.Join(dir, "logs")
	}
	for _, dir := range []string{o.Dir, o.LogDir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("creating the cluster's directories: %w", err)
		}
	}
	return nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := c.takeDir(); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.ready.Kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the cluster's kubeconfig: %w", err)
	}
	c.config = config
	if c.options.WithoutCore {
		return nil
	}
	return c.startCore(ctx)
}

// takeDir makes the directory ours. The control plane inherits the lock, so that a successor of a killed launcher does
// not start beside a control plane that is still stopping.
func (c *Cluster) takeDir() error {
	file, err := os.OpenFile(filepath.Join(c.options.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("opening the lock of the cluster's directory: %w", err)
	}
	locked, err := tryLock(file)
	if locked {
		c.lock = file
		return nil
	}
	if err == nil {
		err = fmt.Errorf("%w: %s", ErrInUse, c.options.Dir)
	}
	return errors.Join(err, file.Close())
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	stdout, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("making a pipe: %w", err)
	}
	line := readReady(stdout)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.options.Binaries.ControlPlane, c.upArgs()...) // ctx is the start's
	cmd.Dir = c.options.Dir
	cmd.Stdout = write
	cmd.ExtraFiles = []*os.File{c.lock}
	p, err := subprocess.Start("control plane", c.logFile("control-plane"), cmd, syscall.SIGTERM)
	if closeErr := write.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	c.adopt(&c.controlPlane, p)
	return c.awaitReady(ctx, line, p)
}

func (c *Cluster) upArgs() []string {
	args := []string{"up", "--dir=" + c.options.Dir, "--port=" + strconv.Itoa(c.options.Port)}
	if c.options.AuditLog != "" {
		args = append(args, "--audit-log="+c.options.AuditLog)
	}
	for _, arg := range c.options.APIServerArgs {
		args = append(args, "--kube-apiserver-arg="+arg)
	}
	for _, arg := range c.options.ControllerManagerArgs {
		args = append(args, "--kube-controller-manager-arg="+arg)
	}
	return args
}

// readReady sends the first line of stdout, and reads on to the end: a process whose output nobody takes would block,
// or die of it.
func readReady(stdout io.ReadCloser) <-chan []byte {
	line := make(chan []byte, 1)
	go func() {
		defer stdout.Close() //nolint:errcheck // only read
		reader := bufio.NewReader(stdout)
		if text, err := reader.ReadBytes('\n'); err == nil {
			line <- text
		}
		_, _ = io.Copy(io.Discard, reader) // the process ended, or its output is of no interest
	}()
	return line
}

func (c *Cluster) awaitReady(ctx context.Context, line <-chan []byte, p *subprocess.Process) error {
	select {
	case text := <-line:
		if err := json.Unmarshal(text, &c.ready); err != nil {
			return fmt.Errorf("reading what the control plane says: %w", err)
		}
		return nil
	case <-p.Ended():
		return p.Exit()
	case <-ctx.Done():
		return fmt.Errorf("waiting for the control plane to be ready: %w", ctx.Err())
	}
}

// adopt makes p a part of the cluster, whose unexpected end is the cluster's.
func (c *Cluster) adopt(slot **subprocess.Process, p *subprocess.Process) {
	c.mu.Lock()
	*slot = p
	c.mu.Unlock()
	go func() {
		<-p.Ended()
		if !p.Expected() {
			c.finish(p.Exit())
		}
	}()
}

// release takes the process out of its slot, if there is one.
func (c *Cluster) release(slot **subprocess.Process) *subprocess.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := *slot
	*slot = nil
	return p
}

func (c *Cluster) finish(err error) {
	c.closeDone.Do(func() {
		c.mu.Lock()
		c.err = err
		c.mu.Unlock()
		close(c.done)
	})
}

// Stop ends core, then the control plane, and returns when both are gone with their sockets. Data stays in Dir. When
// ctx ends first they are killed. Stopping twice is no error.
func (c *Cluster) Stop(ctx context.Context) error {
	c.finish(nil)
	var errs []error
	if core := c.release(&c.core); core != nil {
		errs = append(errs, core.Stop(ctx, coreGrace))
	}
	if controlPlane := c.release(&c.controlPlane); controlPlane != nil {
		errs = append(errs, controlPlane.Stop(ctx, controlPlaneGrace), c.removeSockets())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lock != nil {
		errs = append(errs, c.lock.Close())
		c.lock = nil
	}
	return errors.Join(errs...)
}

// removeSockets clears up after a control plane that had to be killed; an orderly one removes them itself.
func (c *Cluster) removeSockets() error {
	sockets, err := filepath.Glob(filepath.Join(c.options.Dir, "*.sock"))
	for _, socket := range sockets {
		err = errors.Join(err, os.Remove(socket))
	}
	return err
}
