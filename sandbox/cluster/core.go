package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/sandbox/subprocess"
)

const (
	// coreGrace is how long core may take to stop. It keeps nothing that killing it could spoil.
	coreGrace = 5 * time.Second
	// coreAttempts bounds how often core is started anew because somebody took one of its ports.
	coreAttempts = 3
)

// corePorts are the ports that core listens on.
type corePorts struct{ webhook, health int }

// startCore chooses ports, points CRDs and webhooks at them, starts core and waits until its webhooks answer.
func (c *Cluster) startCore(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(ctx, 2)
		if err != nil {
			return err
		}
		c.ports = corePorts{webhook: ports[0], health: ports[1]}
		if err := applyCore(ctx, c.config, c.options.Binaries.Manifests, endpoint{port: c.ports.webhook, caBundle: c.CA()}); err != nil {
			return err
		}
		err = c.runCore(ctx)
		var exit *subprocess.ExitError
		lostPort := errors.As(err, &exit) && (portTaken(ctx, c.ports.webhook) || portTaken(ctx, c.ports.health))
		if !lostPort || attempt == coreAttempts {
			return err
		}
	}
}

// runCore starts core on the ports its webhooks are registered with.
func (c *Cluster) runCore(ctx context.Context) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.options.Binaries.Core, c.coreArgs()...) // ctx is the start's
	cmd.Dir = c.options.Dir
	core, err := subprocess.Start("core", c.logFile("core"), cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	if err := waitHTTP(ctx, fmt.Sprintf("http://127.0.0.1:%d/readyz", c.ports.health), core); err != nil {
		return errors.Join(err, core.Stop(ctx, coreGrace))
	}
	c.adopt(&c.core, core)
	return nil
}

func (c *Cluster) coreArgs() []string {
	return []string{
		"--kubeconfig=" + c.Kubeconfig(),
		"--webhook-port=" + strconv.Itoa(c.ports.webhook),
		"--webhook-cert-dir=" + c.WebhookCertDir(),
		"--health-addr=127.0.0.1:" + strconv.Itoa(c.ports.health),
		"--diagnostics-address=0",
		// ClusterClass is off by default, and costs nothing where no Cluster has one. All else is as
		// core has it, above all its limit of one look a second at an object: without that, core
		// 1.14 does not wait for its own caches either.
		"--feature-gates=ClusterTopology=true",
	}
}

// waitHTTP waits until url answers 200. Core does so once its webhook server has completed a TLS handshake with itself
// and its caches are filled.
func waitHTTP(ctx context.Context, url string, p *subprocess.Process) error {
	ticker := time.NewTicker(statePoll)
	defer ticker.Stop()
	for {
		if answersOK(ctx, url) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the %s to be ready: %w", p.Name(), ctx.Err())
		case <-p.Ended():
			return p.Exit()
		case <-ticker.C:
		}
	}
}

func answersOK(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// StopCore ends core alone, as a crash of it would, but orderly. CAPI objects cannot be written while it is down: its
// webhooks are asked first.
func (c *Cluster) StopCore(ctx context.Context) error {
	core := c.release(&c.core)
	if core == nil {
		return nil
	}
	return core.Stop(ctx, coreGrace)
}

// StartCore starts core again after StopCore and returns when its webhooks answer.
func (c *Cluster) StartCore(ctx context.Context) error {
	c.mu.Lock()
	running := c.core != nil
	c.mu.Unlock()
	if running {
		return errors.New("core is running already")
	}
	return c.startCore(ctx)
}

func (c *Cluster) logFile(process string) string {
	return filepath.Join(c.options.LogDir, process+".log")
}
