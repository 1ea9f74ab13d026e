package cluster

import (
	"bytes"

	"k8s.io/client-go/rest"

	"github.com/macfleet/macfleet/sandbox/subprocess"
)

// Kubeconfig is the path of the administrator's kubeconfig. It refers to no other file.
func (c *Cluster) Kubeconfig() string { return c.ready.Kubeconfig }

// Server is the address of the API server, https://127.0.0.1:PORT.
func (c *Cluster) Server() string { return c.ready.Server }

// CA is the PEM of the authority that signed the API server's certificate, and the one of WebhookCertDir.
func (c *Cluster) CA() []byte { return bytes.Clone(c.config.CAData) }

// Config is a client configuration with the administrator's rights, for the caller to change.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// WebhookCertDir holds tls.crt and tls.key, signed by CA, for webhooks that serve on 127.0.0.1 or localhost.
func (c *Cluster) WebhookCertDir() string { return c.ready.WebhookCertDir }

// PIDs are the process ids by process: "control plane" and, unless stopped, "core".
func (c *Cluster) PIDs() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	pids := map[string]int{}
	for _, p := range []*subprocess.Process{c.controlPlane, c.core} {
		if p != nil {
			pids[p.Name()] = p.PID()
		}
	}
	return pids
}

// Done is closed when the cluster can no longer be used: a process ended by itself, or Stop was called.
func (c *Cluster) Done() <-chan struct{} { return c.done }

// Err is nil until Done is closed, and then nil after Stop or an *subprocess.ExitError. Stop must be called in either case.
func (c *Cluster) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
