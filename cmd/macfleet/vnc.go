package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/macfleet/macfleet/internal/cli/cluster"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// vncPort is where Screen Sharing of a guest listens.
const vncPort = 5900

// guestScreen is a guest's guestScreen that somebody wants to see.
type guestScreen struct {
	cluster   *cluster.Flags
	namespace string
	pod       string
	// port on this machine; 0: a free one.
	port int
	open bool
}

// screens are the ways to a screen; tests have others.
type screens struct {
	// forward joins a port of this machine, 0 for a free one, with the Pod's, tells which
	// one it is, and goes on until ctx ends or the connection breaks.
	forward func(ctx context.Context, s guestScreen, errs io.Writer, ready func(port int)) error
	// view opens a viewer, where the system has one.
	view func(ctx context.Context, url string) error
}

func newVNC() *cobra.Command { return screens{forward: forwardVNC, view: openViewer}.command() }

func (w screens) command() *cobra.Command {
	var v verb
	s := guestScreen{cluster: &v.cluster}
	cmd := &cobra.Command{
		Use:   "vnc POD",
		Short: "See the screen of a Pod's macOS",
		Long: "Forwards a port of this machine to the screen of a Pod's macOS (port 5900 of the guest), prints its\n" +
			"address and, on macOS, opens it. It ends with Ctrl-C. The guest's Screen Sharing must be on, as it is\n" +
			"in the usual images; user and password are the image's.\n\n" +
			"It takes the right to create pods/portforward.",
		Example: "  macfleet vnc build-7\n  kubectl macfleet vnc -n ci build-7 --port 5901",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return usageError{fmt.Errorf("say which Pod: see %s --help", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			s.pod = v.nameOf(args[0], snapshot.Pods)
			if s.port < 0 || s.port > 65535 {
				return usageError{fmt.Errorf("--port %d is not a port", s.port)}
			}
			return w.show(cmd.Context(), s, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	v.add(cmd)
	flags := cmd.Flags()
	flags.IntVar(&s.port, "port", 0, "port on this machine (default: a free one)")
	flags.BoolVar(&s.open, "open", runtime.GOOS == "darwin", "open a viewer (default: on macOS)")
	flags.Lookup("open").DefValue = "" // the words say it, for each system
	return cmd
}

// show prints the address once it answers. That a person ends it is no failure.
func (w screens) show(ctx context.Context, s guestScreen, out, errs io.Writer) error {
	err := w.forward(ctx, s, errs, func(port int) {
		url := "vnc://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		fmt.Fprintf(out, "%s is the screen of %s, until Ctrl-C\n", url, s.pod)
		if !s.open {
			return
		}
		if err := w.view(ctx, url); err != nil {
			fmt.Fprintf(errs, "macfleet: no viewer could be opened: %s\n", oneLine(err))
		}
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// openViewer is for macOS, which has a viewer.
func openViewer(ctx context.Context, url string) error {
	if runtime.GOOS != "darwin" {
		return errors.New("only macOS is known to have one: give the address to yours")
	}
	return exec.CommandContext(ctx, "/usr/bin/open", url).Run()
}

// forwardVNC goes through the API server, as kubectl port-forward does.
func forwardVNC(ctx context.Context, s guestScreen, errs io.Writer, ready func(port int)) error {
	dialer, err := s.dialer()
	if err != nil {
		return err
	}
	up := make(chan struct{})
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("%d:%d", s.port, vncPort)}, ctx.Done(), up, io.Discard, errs)
	if err != nil {
		return fmt.Errorf("preparing the port on this machine: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return forwardingFailed(s, err)
	case <-ctx.Done(): // the dial has no limit of its own, and does not look
		return ctx.Err()
	case <-up:
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return forwardingFailed(s, err)
	}
	ready(int(ports[0].Local))
	return forwardingFailed(s, <-ended)
}

func forwardingFailed(s guestScreen, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("forwarding to port %d of Pod %s: %w", vncPort, s.pod, err)
}

// dialer speaks WebSocket, and SPDY to API servers that are older.
func (s *guestScreen) dialer() (httpstream.Dialer, error) {
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("preparing a client: %w", err)
	}
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(s.namespace).Name(s.pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing a connection: %w", err)
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	modern, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, fmt.Errorf("preparing a connection: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(modern, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// config is the cluster's; the namespace becomes the one that was typed, or the context's.
func (s *guestScreen) config() (*rest.Config, error) {
	config, err := s.cluster.Config()
	if err != nil {
		return nil, err
	}
	s.namespace, err = s.cluster.Namespace()
	return config, err
}
