package up

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// readyPoll is how often the API server is asked whether it is ready.
const readyPoll = 50 * time.Millisecond

// auditPolicyYAML records who asked for what, and never what they sent: requests carry secrets.
const auditPolicyYAML = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

func (p *plane) auditPolicy() string { return filepath.Join(p.options.Dir, "audit-policy.yaml") }

// startAPIServer runs the API server on listener and waits until it says that it is ready.
func (p *plane) startAPIServer(ctx context.Context, listener net.Listener) error {
	if p.options.AuditLog != "" {
		if err := os.WriteFile(p.auditPolicy(), []byte(auditPolicyYAML), 0o600); err != nil {
			return fmt.Errorf("writing the audit policy: %w", err)
		}
	}
	serverCtx, cancel := context.WithCancel(context.Background())
	serve, err := newAPIServer(serverCtx, listener, p.apiServerArgs())
	if err != nil {
		cancel()
		return errors.Join(fmt.Errorf("configuring the API server: %w", err), listener.Close())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.report(serverCtx, "API server", serve())
	}()
	p.stops = append(p.stops, func() { cancel(); <-ended })
	return p.waitReady(ctx, ended)
}

func newAPIServer(ctx context.Context, listener net.Listener, args []string) (serve func() error, err error) {
	// Three components share one logger and each asks to configure it; equal wishes are no conflict.
	logsapi.ReapplyHandling = logsapi.ReapplyHandlingIgnoreUnchanged
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	o := options.NewServerRunOptions()
	if err := parseFlags(o.Flags(), args); err != nil {
		return nil, err
	}
	o.SecureServing.Listener = listener
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, fmt.Errorf("setting feature gates: %w", err)
	}
	if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return nil, fmt.Errorf("configuring logs: %w", err)
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	return func() error { return apiserverapp.Run(ctx, completed) }, nil
}

// parseFlags reads args with the flags of a component, as its own command would.
func parseFlags(sets cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}

func (p *plane) waitReady(ctx context.Context, ended <-chan struct{}) error {
	client, err := p.adminClient()
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-ended:
			return false, errors.New("the API server ended before it was ready")
		default:
		}
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil, nil
	})
	if err == nil {
		return nil
	}
	select {
	case cause := <-p.failed:
		return cause
	default:
		return fmt.Errorf("waiting for the API server: %w", err)
	}
}

func (p *plane) adminClient() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.options.adminKubeconfig())
	if err != nil {
		return nil, fmt.Errorf("reading the administrator's kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the administrator's client: %w", err)
	}
	return client, nil
}
