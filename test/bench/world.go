package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/scaleway"
	clustercontroller "github.com/macfleet/macfleet/internal/controller/cluster"
	"github.com/macfleet/macfleet/internal/controller/controlplane"
	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/internal/controller/machine"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/internal/workload"
	"github.com/macfleet/macfleet/sandbox/cluster"
	sandbox "github.com/macfleet/macfleet/sandbox/scaleway"
)

// The manager's own defaults, cmd/manager.
const (
	defaultKubeQPS   = 100
	defaultKubeBurst = 200
)

const (
	zone   = "fr-par-1"
	prefix = "tuist-pool-"
	// wipesFaster turns a reinstall of 17 minutes into one second.
	wipesFaster = 1000
	// macsAtOnce is how many objects are made at the same time.
	atOnce = 16
)

// world is a real API server, the controllers of hosts and Machines, and a vendor.
type world struct {
	vendor *sandbox.Vendor
	client client.WithWatch
	// environment is the API server's.
	environment *envtest.Environment
	// requests counts what the controllers ask the API server.
	requests *requests
	// reconciler is that of Machines.
	reconciler *machine.Reconciler
	// switchOn has the Macs answer.
	switchOn func()
	answers  <-chan struct{}
	// stopManager ends the controllers, stop everything.
	stopManager func() error
	stop        func()
}

// options of a world.
type options struct {
	servers   int
	inventory time.Duration
	// clusters: Clusters and control planes have controllers, too.
	clusters bool
	settings
}

// start starts a world with an API server of its own.
func start(ctx context.Context, binaries cluster.Binaries, o options) (*world, error) {
	environment, err := startAPI(binaries)
	if err != nil {
		return nil, err
	}
	w, err := startOn(ctx, environment.Config, o)
	if err != nil {
		return nil, errors.Join(err, environment.Stop())
	}
	w.environment = environment
	stop := w.stop
	w.stop = func() {
		stop()
		if err := errors.Join(environment.Stop(), os.RemoveAll(environment.BinaryAssetsDirectory)); err != nil {
			say("stopping: %v", err)
		}
	}
	return w, nil
}

// startOn starts a world on an API server that is there.
func startOn(ctx context.Context, api *rest.Config, o options) (*world, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	vendor, err := newVendor(ctx, o.servers, o.latency)
	if err != nil {
		return nil, err
	}
	answers := make(chan struct{})
	w := &world{vendor: vendor, requests: &requests{}, answers: answers, switchOn: func() { close(answers) }}
	plenty := rest.CopyConfig(api)
	plenty.QPS, plenty.Burst = 1000, 2000
	if w.client, err = client.NewWithWatch(plenty, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if w.stopManager, err = w.startManager(ctx, api, o); err != nil {
		return nil, err
	}
	w.stop = func() {
		// The figures are there already: what does not end well spoils none of them.
		if err := w.stopManager(); err != nil {
			say("stopping: %v", err)
		}
		vendor.Close()
	}
	return w, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return scheme, nil
}

// newVendor is a vendor with a pool, each of whose answers takes a while.
func newVendor(ctx context.Context, servers int, latency time.Duration) (*sandbox.Vendor, error) {
	vendor := sandbox.New(sandbox.Options{TimeScale: wipesFaster, JournalLimit: 1_000_000})
	for n := range servers {
		spec := sandbox.ServerSpec{Name: fmt.Sprintf("%s%04d", prefix, n), OS: "macos-tahoe-26.0"}
		if _, err := vendor.AddServer(ctx, spec); err != nil {
			return nil, err
		}
	}
	if latency > 0 {
		if _, err := vendor.Arm(sandbox.Fault{Delay: sandbox.Duration(latency)}); err != nil {
			return nil, err
		}
	}
	return vendor, nil
}

// connect returns the product's client of a vendor, as the manager has it.
func connect(vendor *sandbox.Vendor) (*scaleway.Client, error) {
	return scaleway.New(scaleway.Options{
		AccessKey: sandbox.DefaultAccessKey, SecretKey: sandbox.DefaultSecretKey, ProjectID: sandbox.DefaultProjectID,
		HTTPClient: &http.Client{Transport: vendor.RoundTripper()},
	})
}

func startAPI(binaries cluster.Binaries) (*envtest.Environment, error) {
	assets, err := os.MkdirTemp("", "mfbench")
	if err != nil {
		return nil, err
	}
	if err := binaries.EnvtestAssets(assets); err != nil {
		return nil, err
	}
	environment := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths:     []string{filepath.Join("charts", "macfleet", "crds"), filepath.Join(binaries.Manifests, "crds")},
		ErrorIfCRDPathMissing: true,
	}
	if _, err := environment.Start(); err != nil {
		return nil, fmt.Errorf("starting the API server: %w", err)
	}
	return environment, nil
}

// startManager runs the controllers with the options that the manager has by
// default; only the Macs are not real.
func (w *world) startManager(ctx context.Context, api *rest.Config, o options) (stop func() error, err error) {
	api = rest.CopyConfig(api)
	api.QPS, api.Burst = float32(o.kubeQPS), o.bursts
	api.Wrap(w.requests.count)
	mgr, err := ctrl.NewManager(api, ctrl.Options{
		Scheme:     w.client.Scheme(),
		Logger:     ctrl.Log,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)}, // one world after the other
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &corev1.Namespace{}, &corev1.ServiceAccount{},
		}}},
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the controllers: %w", err)
	}
	vendor, err := connect(w.vendor)
	if err != nil {
		return nil, err
	}
	if err := w.addControllers(mgr, vendor, o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error {
		err := mgr.Start(ctx)
		if ctx.Err() == nil {
			say("the controllers ended: %v", err)
		}
		return err
	})
	return func() error {
		cancel()
		return group.Wait()
	}, nil
}

func (w *world) addControllers(mgr ctrl.Manager, vendor cloud.Cloud, o options) error {
	inventory, err := hostcontroller.SetupWithManager(mgr, hostcontroller.Options{
		Cloud: vendor, InventoryInterval: o.inventory, DefaultPoolPrefix: prefix, OrphanReclaimZones: []string{zone},
		Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	build, err := remote.NewBuild([]byte("an agent"))
	if err != nil {
		return err
	}
	w.reconciler = machine.New(machine.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Keys: vendor, Macs: macs{w.client, w.answers},
		Agent: push.Agent{Version: "v0", Build: build}, Zone: inventory.Zone, Lacks: inventory.Lacks, DefaultPoolPrefix: prefix,
		Discovery:   workload.Discovery{Reader: mgr.GetAPIReader(), ServerURL: mgr.GetConfig().Host, FallbackCA: mgr.GetConfig().CAData},
		Recorder:    mgr.GetEventRecorder("macfleet-machine"),
		RebootAfter: 3, MaxAttempts: 8,
	})
	if err := w.reconciler.SetupWithManager(mgr); err != nil || !o.clusters {
		return err
	}
	return addClusters(mgr, inventory)
}

// addClusters adds the controllers of Clusters and control planes.
func addClusters(mgr ctrl.Manager, inventory *hostcontroller.Inventory) error {
	clusters := &clustercontroller.Reconciler{Client: mgr.GetClient(), Inventory: inventory}
	if err := clusters.SetupWithManager(mgr); err != nil {
		return err
	}
	api := mgr.GetConfig()
	version, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return fmt.Errorf("setting up discovery: %w", err)
	}
	planes := &controlplane.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Version: version, Namespace: namespace,
		Server:    controlplane.Server{URL: api.Host, CA: api.CAData},
		Discovery: workload.Discovery{Reader: mgr.GetAPIReader(), ServerURL: api.Host, FallbackCA: api.CAData},
	}
	return planes.SetupWithManager(mgr)
}
