package up

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Options say where a control plane lives and how its parts differ from their defaults here.
type Options struct {
	// Dir holds everything the control plane writes: etcd's data and sockets, certificates, kubeconfigs.
	Dir string
	// Port of the API server on 127.0.0.1; 0 takes a free one.
	Port int
	// AuditLog is a file for one line of metadata a request; empty writes none.
	AuditLog string
	// APIServerArgs and ControllerManagerArgs are flags put after those of this package, whose value they replace.
	APIServerArgs, ControllerManagerArgs []string
}

func (o Options) adminKubeconfig() string { return filepath.Join(o.Dir, "admin.kubeconfig") }

func (o Options) controllerManagerKubeconfig() string {
	return filepath.Join(o.Dir, "pki", "controller-manager.kubeconfig")
}

func (o Options) schedulerKubeconfig() string {
	return filepath.Join(o.Dir, "pki", "scheduler.kubeconfig")
}

// repeated is a flag that may be given more than once.
type repeated []string

func (r *repeated) String() string { return strings.Join(*r, " ") }

func (r *repeated) Set(value string) error { *r = append(*r, value); return nil }

func parseOptions(args []string, output io.Writer) (Options, error) {
	var o Options
	var apiServer, controllerManager repeated
	flags := flag.NewFlagSet("controlplane up", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.Dir, "dir", "", "directory for everything the control plane writes (required)")
	flags.IntVar(&o.Port, "port", 0, "port of the API server on 127.0.0.1; 0 takes a free one")
	flags.StringVar(&o.AuditLog, "audit-log", "", "file for one line of metadata a request")
	flags.Var(&apiServer, "kube-apiserver-arg", "a further flag for the API server; may be repeated")
	flags.Var(&controllerManager, "kube-controller-manager-arg", "a further flag for the controller manager; may be repeated")
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	o.APIServerArgs, o.ControllerManagerArgs = apiServer, controllerManager
	return o, o.complete(flags.Args())
}

func (o *Options) complete(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("unexpected argument %q", rest[0])
	}
	if o.Dir == "" {
		return errors.New("--dir is required")
	}
	if o.Port < 0 || o.Port > 65535 {
		return fmt.Errorf("--port %d is not a port", o.Port)
	}
	for _, path := range []*string{&o.Dir, &o.AuditLog} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("resolving %s: %w", *path, err)
		}
		*path = abs
	}
	return nil
}

// listen opens the API server's port here, and not by flag, so that a port chosen by the kernel is never lost to
// another process in between.
func listen(ctx context.Context, port int) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("opening the API server's port: %w", err)
	}
	return listener, nil
}
