package agent

import (
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"

	"github.com/macfleet/macfleet/internal/agent/server"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// shimVerb is the hidden verb by which the agent starts shims.
const shimVerb = "shim"

// Commands are the verbs of the node agent. version goes into the Node.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{runCommand(version), shimCommand()}
}

func runCommand(version string) *cobra.Command {
	o := options{Version: version, HealthSocket: document.HealthSocket}
	var hostd string
	var kubeletPort int
	c := &cobra.Command{
		Use:   "run",
		Short: "Make this Mac a node and run its Pods as macOS VMs",
		Args:  noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			// The libraries below speak through klog; one log is enough.
			klog.SetSlogLogger(slog.New(server.LibraryLog(log.Handler())))
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			if !c.Flags().Changed("health-socket") {
				o.HealthSocket = filepath.Join(o.StateDir, filepath.Base(document.HealthSocket))
			}
			if c.Flags().Changed("hostd-socket") {
				o.HostdSocket = &hostd
			}
			if c.Flags().Changed("kubelet-port") {
				o.KubeletPort = &kubeletPort
			}
			return run(ctx, o, log)
		},
	}
	runFlags(c.Flags(), &o, &hostd)
	c.Flags().IntVar(&kubeletPort, "kubelet-port", document.DefaultKubeletPort,
		"port of the kubelet API on the Node's address, instead of the configuration's; 0: none, and kubectl logs, exec and port-forward do not work")
	return c
}

func runFlags(f *pflag.FlagSet, o *options, hostd *string) {
	f.StringVar(&o.ConfigFile, "config", document.ConfigFile, "configuration that converge wrote")
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "speak to the API server as this file says, without a bootstrap")
	f.StringVar(&o.NodeName, "node-name", "", "name of the Node, instead of the configuration's")
	f.StringVar(&o.ProviderID, "provider-id", "", "provider ID of the Node, instead of the configuration's")
	f.StringToStringVar(&o.NodeLabels, "node-labels", nil, "labels of the Node, over the configuration's")
	f.IntVar(&o.MaxVMs, "max-vms", 0, "VMs at once, 1 or 2, instead of the configuration's")
	f.StringVar(&o.BootstrapKubeconfig, "bootstrap-kubeconfig", document.BootstrapKubeconfig, "API server and token to join with")
	f.StringVar(&o.PermitFile, "join-permit", document.JoinPermitFile, "permit to create the Node once")
	f.StringVar(&o.StateDir, "state-dir", document.AgentStateDir, "where the agent keeps what must outlive it")
	f.StringVar(&o.Tart, "tart", "", "the tart executable (default: the one in /usr/local/bin, /opt/homebrew/bin or PATH)")
	f.StringVar(&o.TartHome, "tart-home", "", "where tart keeps images and VMs (default: ~/.tart)")
	f.StringVar(&o.HealthSocket, "health-socket", document.HealthSocket, "local socket that tells which build runs (default: in the state directory)")
	f.StringVar(hostd, "hostd-socket", document.HostdSocket,
		"local socket of hostd, which proves the firewall around a guest; empty: no proof (default: none either without a guests' subnet)")
}

// shimCommand is for the agent itself.
func shimCommand() *cobra.Command {
	return &cobra.Command{
		Use:    shimVerb + " DIR",
		Short:  "Hold one VM; started by run",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return shim.Main(args[0]) },
	}
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("unexpected argument %q", args[0])
	}
	return nil
}
