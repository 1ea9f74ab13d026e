package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"

	"github.com/macfleet/macfleet/internal/agent/guard"
	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/identity"
	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/node"
	"github.com/macfleet/macfleet/internal/agent/pod/firewall"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/tart"
	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	// leaseTimeout is below the renewal interval, so that a dead connection costs
	// one heartbeat and not the Node.
	leaseTimeout = 5 * time.Second
	// factsRetry is how often the host is asked again for what it must tell.
	factsRetry = 5 * time.Second
	// clientQPS and clientBurst are a kubelet's defaults.
	clientQPS   = 50
	clientBurst = 100
	// component names the agent to the API server.
	component = "tart-kubelet"
	// eventSource is a kubelet's, so that what is made for its events fits.
	eventSource = "kubelet"
)

// run is the agent's life. It returns nil when ctx ends, and an error that has an
// ExitCode when flags or configuration are wrong.
func run(ctx context.Context, o options, log *slog.Logger) error {
	config, hash, err := loadConfig(o)
	if err != nil {
		return err
	}
	driver, err := newDriver(o, config)
	if err != nil {
		return err
	}
	kinds, err := kube.NewKinds()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return usage("the state directory cannot be used: %w", err)
	}
	listener, err := listenHealth(ctx, o.HealthSocket)
	if err != nil {
		return usage("%w", err)
	}
	health := document.Health{Build: Build(os.Args[0]), ConfigHash: hash, PID: os.Getpid()}
	go serveHealth(ctx, listener, health, log)
	log.Info("agent starts", "node", config.Host.Name, "version", o.Version, "build", health.Build)

	a := agent{o: o, config: config, driver: driver, host: hostos.Commands{}, kinds: kinds, log: log}
	if err := a.run(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	log.Info("agent stops, its VMs go on")
	return nil
}

func newDriver(o options, c document.AgentConfig) (vm.Driver, error) {
	path, err := tart.Find(o.Tart)
	if err != nil {
		return nil, UsageError{err}
	}
	home, err := tartHome(o, c)
	if err != nil {
		return nil, err
	}
	return tart.New(tart.Options{Path: path, Home: home}), nil
}

type agent struct {
	o      options
	config document.AgentConfig
	driver vm.Driver
	host   hostos.Runner
	kinds  *kube.Kinds
	log    *slog.Logger
}

func (a *agent) run(ctx context.Context) error {
	self, err := a.self(ctx)
	if err != nil {
		return err
	}
	if self.Tool.Unknown {
		a.log.Warn("nobody has tried this version of tart with this agent", "version", self.Tool.Version)
	}
	connections, err := a.connect(ctx)
	if err != nil {
		return err
	}
	events, stop := a.recorder(connections.main)
	defer stop()
	slots := slot.Open(slot.Options{
		Limit: a.config.Node.MaxVMs, File: filepath.Join(a.o.StateDir, "slots.json"), BootSession: self.Facts.BootSession, Log: a.log,
	})
	keychain := &health.Keychain{}
	disks, err := a.disks()
	if err != nil {
		return err
	}
	checks, err := a.checks(keychain, disks)
	if err != nil {
		return err
	}
	serving, err := a.serving(connections.main, self)
	if err != nil {
		return err
	}
	if serving.Certificate != nil {
		checks = append(checks, serving.Check())
	}
	monitor := health.New(health.Options{Checks: checks, Log: a.log})
	keychain.Changed = monitor.LookAgain
	serving.news = monitor.LookAgain
	pods, err := a.pods(connections.main, events, self, watchedEnds{a.driver, keychain}, slots, monitor)
	if err != nil {
		return err
	}
	defer pods.objects.Close()
	keeper := node.New(node.Options{
		Client: connections.main, LeaseClient: connections.lease, OnLeaseTrouble: connections.reset,
		Self: self, PermitFile: a.o.PermitFile, StateDir: a.o.StateDir,
		Health: monitor, Slots: slots, Images: pods.images.Images, Events: events, Log: a.log,
	})
	usage, err := a.stats(pods.supervisor)
	if err != nil {
		return err
	}
	api, err := a.kubeletAPI(connections.main, self, serving, pods.supervisor, usage)
	if err != nil {
		return err
	}
	evicting := a.evicting(monitor, disks, pods, usage, self, events)
	return together(ctx, keeper.Run, pods.supervisor.Run, pods.images.Run, monitor.Run, serving.run, api, evicting.Run)
}

// hostdSocket is where hostd answers; empty where there is no guests' network to
// fence in.
func (a *agent) hostdSocket() string {
	switch {
	case a.o.HostdSocket != nil:
		return *a.o.HostdSocket
	case a.config.Mac.Network.Subnet != "":
		return document.HostdSocket
	}
	return ""
}

// guard is hostd, or nobody.
func (a *agent) guard() firewall.Guard {
	socket := a.hostdSocket()
	if socket == "" {
		a.log.Warn("guests start without a proof of the firewall around them")
		return nil
	}
	return guard.Gate{Socket: socket, Session: a.config.Mac.AutoLogin}
}

// together runs all until one fails or ctx ends.
func together(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(parts))
	var running sync.WaitGroup
	for i, part := range parts {
		running.Go(func() {
			defer cancel()
			errs[i] = part(ctx)
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// self reads what the Mac is, as often as it takes: a Node with made-up facts
// helps nobody.
func (a *agent) self(ctx context.Context) (node.Self, error) {
	for {
		self, err := a.readSelf(ctx)
		if err == nil {
			return self, nil
		}
		a.log.Error("the host does not tell what it is, asking again", "err", err)
		t := time.NewTimer(factsRetry)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return node.Self{}, context.Cause(ctx)
		}
	}
}

func (a *agent) readSelf(ctx context.Context) (node.Self, error) {
	facts, err := hostos.ReadFacts(ctx, a.host)
	if err != nil {
		return node.Self{}, err
	}
	// Guests' disks are clones beside the images: theirs is the volume that Pods share.
	home, err := tartHome(a.o, a.config)
	if err != nil {
		return node.Self{}, err
	}
	disk, err := a.disk(ctx, home)
	if err != nil {
		return node.Self{}, err
	}
	tool, err := a.driver.Probe(ctx)
	if err != nil {
		return node.Self{}, err
	}
	return node.Self{Config: a.config, Facts: facts, Disk: disk, Tool: tool, Version: a.o.Version}, nil
}

func hostIP(s node.Self) string {
	for _, a := range s.Addresses() {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// connections are the clients, and what closes the connections of both.
type connections struct {
	main, lease kube.Client
	reset       func()
}

func (a *agent) connect(ctx context.Context) (connections, error) {
	if a.o.Kubeconfig != "" {
		return a.connectAs(a.o.Kubeconfig)
	}
	id, err := identity.Start(ctx, identity.Options{
		NodeName:            a.config.Host.Name,
		BootstrapKubeconfig: a.o.BootstrapKubeconfig,
		Kinds:               a.kinds,
		Dir:                 filepath.Join(a.o.StateDir, "identity"),
		Log:                 a.log,
	})
	if err != nil {
		return connections{}, err
	}
	main, resetMain, err := id.Config(ctx)
	if err != nil {
		return connections{}, err
	}
	lease, resetLease, err := id.Config(ctx)
	if err != nil {
		return connections{}, err
	}
	return a.clients(main, lease, both(resetLease, resetMain))
}

// connectAs uses a kubeconfig for both clients.
func (a *agent) connectAs(path string) (connections, error) {
	main, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		return connections{}, usage("%s is no usable kubeconfig: %w", path, err)
	}
	lease := rest.CopyConfig(main)
	tlsConfig, err := rest.TLSConfigFor(lease)
	if err != nil {
		return connections{}, usage("%s has no usable certificates: %w", path, err)
	}
	return a.clients(main, lease, both(identity.Rotating(lease, tlsConfig), identity.Rotating(main, tlsConfig)))
}

func both(first, second func()) func() {
	return func() {
		first()
		second()
	}
}

func (a *agent) clients(main, lease *rest.Config, reset func()) (connections, error) {
	for _, c := range []*rest.Config{main, lease} {
		c.UserAgent = component
		c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
		c.ContentType = "application/vnd.kubernetes.protobuf"
		c.QPS, c.Burst = clientQPS, clientBurst
	}
	lease.Timeout = leaseTimeout
	mainClient, err := a.kinds.Client(main)
	if err != nil {
		return connections{}, fmt.Errorf("making a client: %w", err)
	}
	leaseClient, err := a.kinds.Client(lease)
	if err != nil {
		return connections{}, fmt.Errorf("making the client of the lease: %w", err)
	}
	return connections{main: mainClient, lease: leaseClient, reset: reset}, nil
}

func (a *agent) recorder(client kube.Client) (record.EventRecorder, func()) {
	broadcaster := record.NewBroadcaster()
	broadcaster.StartRecordingToSink(client.Events())
	source := corev1.EventSource{Component: eventSource, Host: a.config.Host.Name}
	return broadcaster.NewRecorder(a.kinds.Scheme(), source), broadcaster.Shutdown
}
