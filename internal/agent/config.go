package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// UsageError is a wrong flag or configuration: one line for people.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.Err }

// ExitCode of the process.
func (UsageError) ExitCode() int { return 2 }

func usage(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// options of run, as the flags give them. Empty ones leave things to the
// configuration file.
type options struct {
	// ConfigFile is a document.AgentConfig; missing is allowed only when the flags
	// say everything.
	ConfigFile string
	// Kubeconfig skips the bootstrap: the agent is whoever it names.
	Kubeconfig string
	NodeName   string
	ProviderID string
	NodeLabels map[string]string
	// MaxVMs overrides the configuration when it is not 0.
	MaxVMs              int
	BootstrapKubeconfig string
	PermitFile          string
	StateDir            string
	// Tart is the executable, TartHome is TART_HOME.
	Tart, TartHome string
	HealthSocket   string
	// HostdSocket is where the firewall is proved before and after a guest starts.
	// Nil: on document.HostdSocket, where the configuration names a guests' network.
	// Empty: nowhere.
	HostdSocket *string
	// KubeletPort overrides the configuration. Nil: it does not. 0: no kubelet API.
	KubeletPort *int
	// Version of this build, for the Node.
	Version string
}

// loadConfig reads the file, lays the flags over it, and returns the hash of the
// file's bytes, empty when there is none.
func loadConfig(o options) (document.AgentConfig, string, error) {
	var c document.AgentConfig
	data, err := os.ReadFile(o.ConfigFile)
	switch {
	case errors.Is(err, os.ErrNotExist) && o.NodeName != "":
		return overlay(c, o), "", validate(overlay(c, o))
	case err != nil:
		return c, "", usage("reading the configuration: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return c, "", usage("%s is not a configuration of this agent: %w", o.ConfigFile, err)
	}
	if c.Schema != document.ConfigSchema {
		return c, "", usage("%s has schema %q, this agent reads %q", o.ConfigFile, c.Schema, document.ConfigSchema)
	}
	c = overlay(c, o)
	return c, document.Hash(data), validate(c)
}

func overlay(c document.AgentConfig, o options) document.AgentConfig {
	if o.NodeName != "" {
		c.Host.Name = o.NodeName
	}
	if o.ProviderID != "" {
		c.Host.ProviderID = o.ProviderID
	}
	if o.MaxVMs != 0 {
		c.Node.MaxVMs = o.MaxVMs
	}
	if c.Node.MaxVMs == 0 {
		c.Node.MaxVMs = 1
	}
	if o.KubeletPort != nil {
		c.Kubelet.Port = o.KubeletPort
	}
	if len(o.NodeLabels) > 0 {
		labels := map[string]string{}
		maps.Copy(labels, c.Node.Labels)
		maps.Copy(labels, o.NodeLabels)
		c.Node.Labels = labels
	}
	return c
}

// mostVMs is what Apple's licence allows on one Mac.
const mostVMs = 2

func validate(c document.AgentConfig) error {
	if problems := content.IsDNS1123Subdomain(c.Host.Name); len(problems) > 0 {
		return usage("node name %q: %s", c.Host.Name, problems[0])
	}
	if c.Host.ProviderID == "" {
		return usage("no provider ID: set host.providerID in the configuration, or --provider-id")
	}
	if c.Node.MaxVMs < 1 || c.Node.MaxVMs > mostVMs {
		return usage("%d VMs at once: Apple's licence allows 1 or %d", c.Node.MaxVMs, mostVMs)
	}
	if port := c.Kubelet.ListenPort(); port < 0 || port > math.MaxUint16 {
		return usage("%d is no port for the kubelet API", port)
	}
	for name, value := range c.Node.Labels {
		if problems := append(content.IsLabelKey(name), content.IsLabelValue(value)...); len(problems) > 0 {
			return usage("node label %s=%s: %s", name, value, problems[0])
		}
	}
	return nil
}

// tartHome is where the console user's machines are: on the volume for guests,
// where there is one. launchd gives a system job
// no HOME, whatever its user.
func tartHome(o options, c document.AgentConfig) (string, error) {
	if o.TartHome != "" {
		return o.TartHome, nil
	}
	if c.Mac.GuestQuotaBytes > 0 {
		return filepath.Join(document.GuestVolume, "tart"), nil
	}
	home := os.Getenv("HOME")
	if home == "" && c.Host.User != "" {
		home = filepath.Join("/Users", c.Host.User)
	}
	if home == "" || home == "/" {
		return "", usage("no home directory for tart: set HOME, or --tart-home")
	}
	return filepath.Join(home, ".tart"), nil
}

// Build returns the name of the slot that this process was started from: the
// SHA-256 in the path <sha256>/tart-kubelet. It is empty outside a slot. argv0
// comes first, as it is what was asked to be executed.
func Build(argv0 string) string {
	candidates := []string{argv0}
	if exe, err := os.Executable(); err == nil {
		candidates = append(candidates, exe)
	}
	for _, path := range candidates {
		if !strings.Contains(path, "/") {
			continue
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue
		}
		if slot := filepath.Base(filepath.Dir(real)); document.IsSHA256(slot) {
			return slot
		}
	}
	return ""
}
