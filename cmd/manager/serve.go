package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	bootstrapv1 "github.com/macfleet/macfleet/api/bootstrap/v1alpha1"
	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/scaleway"
	"github.com/macfleet/macfleet/internal/controller/bootstrap"
	"github.com/macfleet/macfleet/internal/controller/cluster"
	"github.com/macfleet/macfleet/internal/controller/controlplane"
	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/internal/controller/machine"
	"github.com/macfleet/macfleet/internal/controller/node"
	"github.com/macfleet/macfleet/internal/controller/nodecsr"
	"github.com/macfleet/macfleet/internal/controller/profile"
	"github.com/macfleet/macfleet/internal/controller/remediation"
	"github.com/macfleet/macfleet/internal/controller/sshkey"
	"github.com/macfleet/macfleet/internal/controller/template"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/push"
	"github.com/macfleet/macfleet/internal/tracing"
	"github.com/macfleet/macfleet/internal/workload"
)

const (
	leaderElectionID = "macfleet-manager"

	// probeZone proves the credentials where no flag names a zone.
	probeZone = "fr-par-1"
)

// serve proves the credentials, puts the controllers together and runs them
// until the context ends.
func serve(ctx context.Context, s settings) error {
	s.vendor.Log = ctrl.Log.WithName("vendor")
	vendor, err := scaleway.New(s.vendor)
	if err != nil {
		return &usageError{err}
	}
	agent, err := push.ReadAgent(s.agentDir, version)
	if err != nil {
		return wrong("--agent-dir: %w", err)
	}
	if err := prove(ctx, vendor, s.parsedReclaimZones); err != nil {
		return err
	}
	kubernetes, err := connect(s)
	if err != nil {
		return err
	}
	if err := checkCluster(ctx, kubernetes); err != nil {
		return err
	}
	mgr, err := newManager(s, kubernetes)
	if err != nil {
		return err
	}
	if kubernetes.clusterID, err = clusterID(ctx, mgr.GetAPIReader()); err != nil {
		return err
	}
	tracer, stop, err := s.tracer(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := addControllers(mgr, s, kubernetes, cloud.Surrounded(vendor, tracer.Call), agent, tracer); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("running the controllers: %w", err)
	}
	return nil
}

// prove asks the vendor whether it accepts us. Only what starting again cannot
// mend ends the program; a vendor that does not answer is waited for, and a zone that it
// took away costs the others nothing.
func prove(ctx context.Context, vendor cloud.Cloud, zones []string) error {
	named := len(zones) > 0
	if !named {
		zones = []string{probeZone}
	}
	log := ctrl.LoggerFrom(ctx)
	var unknown []string
	var why error
	for _, zone := range zones {
		err := vendor.CheckAccess(ctx, zone)
		switch {
		case err == nil:
		case cloud.IsUnauthorized(err), cloud.IsForbidden(err):
			return wrong("the vendor rejects the credentials: %w", err)
		case cloud.IsUnknownZone(err) && named:
			unknown, why = append(unknown, zone), err
		default:
			log.Info("The credentials could not be proved yet", "zone", zone, "error", err.Error())
		}
	}
	if len(unknown) == len(zones) {
		return wrong("--orphan-reclaim-zones: the vendor knows none of %s: %w", strings.Join(unknown, ", "), why)
	}
	if len(unknown) > 0 {
		log.Error(why, "The vendor does not know zones of --orphan-reclaim-zones; the others are served. Mend the zone of the fleets there, or take these fleets out of the values", "zones", unknown)
	}
	return nil
}

// connection is the API server that the manager works on, and the namespace
// that is its own there: of its lease, and of the ServiceAccount for core.
type connection struct {
	config    *rest.Config
	namespace string
	// clusterID tells this cluster from others that use the same vendor project.
	clusterID string
}

// clusterID is the UID of kube-system, which lives as long as the cluster.
func clusterID(ctx context.Context, reader client.Reader) (string, error) {
	system := &corev1.Namespace{}
	if err := reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return "", fmt.Errorf("reading which cluster this is: %w", err)
	}
	return string(system.UID), nil
}

func connect(s settings) (connection, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil)
	config, err := loader.ClientConfig()
	if err != nil {
		return connection{}, wrong("no Kubernetes API server is known: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return connection{}, wrong("reading the manager's own namespace: %w", err)
	}
	if namespace == corev1.NamespaceDefault && s.namespace != "" {
		namespace = s.namespace // a kubeconfig that names none
	}
	config.QPS, config.Burst = float32(s.kubeQPS), s.kubeBurst
	config.UserAgent = "macfleet-manager/" + version
	if err := rest.LoadTLSFiles(config); err != nil {
		return connection{}, wrong("reading the TLS files of the Kubernetes client: %w", err)
	}
	return connection{config: config, namespace: namespace}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, infrav1.AddToScheme, controlplanev1.AddToScheme, bootstrapv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering kinds: %w", err)
		}
	}
	return scheme, nil
}

// hostsAtRest is how often a host is looked at that nothing wakes. What it waits for wakes
// it; an event that is missed all the same costs minutes, and not ten hours.
const hostsAtRest = 10 * time.Minute

// cacheOf watches one namespace, or all where none is named, and what is in none.
func cacheOf(namespace string) cache.Options {
	options := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&infrav1.ScalewayAppleSiliconHost{}: {SyncPeriod: ptr.To(hostsAtRest)},
	}}
	if namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{namespace: {}}
	}
	return options
}

// options are what the settings say of the manager itself.
func (s *settings) options(scheme *runtime.Scheme, leaseNamespace string) ctrl.Options {
	return ctrl.Options{
		Scheme:                        scheme,
		Logger:                        ctrl.Log,
		LeaderElection:                s.leaderElect,
		LeaderElectionID:              leaderElectionID,
		LeaderElectionNamespace:       leaseNamespace,
		LeaderElectionReleaseOnCancel: true,
		Metrics:                       s.metrics(),
		HealthProbeBindAddress:        s.probeAddress,
		Cache:                         cacheOf(s.namespace),
		// Caching these would need the right to list them everywhere.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Pod{}, &corev1.Namespace{}, &corev1.ServiceAccount{},
		}}},
	}
}

func newManager(s settings, to connection) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(to.config, s.options(scheme, to.namespace))
	if err != nil {
		return nil, fmt.Errorf("setting up the controllers: %w", err)
	}
	for _, add := range []func(string, healthz.Checker) error{mgr.AddHealthzCheck, mgr.AddReadyzCheck} {
		if err := add("ping", healthz.Ping); err != nil {
			return nil, fmt.Errorf("adding a health check: %w", err)
		}
	}
	return mgr, nil
}

func addControllers(mgr ctrl.Manager, s settings, to connection, vendor cloud.Cloud, agent push.Agent, tracer tracing.Tracer) error {
	restConfig := mgr.GetConfig()
	toServer := workload.Discovery{Reader: mgr.GetAPIReader(), ServerURL: s.apiServerURL, FallbackCA: restConfig.CAData}
	rights := &cloud.Rights{}
	vendor, err := hostcontroller.Measured(vendor, ctrlmetrics.Registry) // whoever calls it
	if err != nil {
		return err
	}
	keysOf := rights.RecordRefusals(vendor)
	ofHosts := s.hostOptions()
	ofHosts.Cloud, ofHosts.Tracer, ofHosts.Rights = vendor, tracer, rights
	inventory, err := hostcontroller.SetupWithManager(mgr, ofHosts)
	if err != nil {
		return err
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(restConfig)
	if err != nil {
		return fmt.Errorf("setting up discovery: %w", err)
	}
	clientCA := workload.NewClientCA(mgr.GetAPIReader())
	if err := mgr.Add(clientCA); err != nil {
		return fmt.Errorf("adding the authorities of the API server's clients: %w", err)
	}
	ofMachines := s.machineOptions()
	ofMachines.Client, ofMachines.Reader, ofMachines.Keys, ofMachines.ClusterID = mgr.GetClient(), mgr.GetAPIReader(), keysOf, to.clusterID
	ofMachines.Macs, ofMachines.Tracer, ofMachines.Agent = push.Traced(push.SSH{}, tracer), tracer, agent
	ofMachines.ClientCA, ofMachines.Discovery, ofMachines.Zone, ofMachines.Lacks = clientCA.PEM, toServer, inventory.Zone, inventory.Lacks
	ofMachines.Recorder, ofMachines.Metrics = mgr.GetEventRecorder("macfleet-machine"), ctrlmetrics.Registry
	machines := machine.New(ofMachines)
	profiles := profile.New(profile.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Agent: document.Agent{SHA256: agent.SHA256, Version: agent.Version},
		ClientCA: clientCA.PEM, ClientCAChanged: clientCA.Changed(),
		Recorder: mgr.GetEventRecorder("macfleet-profile"), Metrics: ctrlmetrics.Registry, WatchFilter: s.watchFilter,
	})
	remediations := remediation.New(remediation.Options{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Zone: inventory.Zone,
		Recorder: mgr.GetEventRecorder("macfleet-remediation"), WatchFilter: s.watchFilter,
	})
	clusters := &cluster.Reconciler{
		Client: mgr.GetClient(), Inventory: inventory, Recorder: mgr.GetEventRecorder("macfleet-cluster"),
		Metrics: ctrlmetrics.Registry, WatchFilter: s.watchFilter,
	}
	planes := &controlplane.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Version: discoverer, Discovery: toServer,
		Server:    controlplane.Server{URL: restConfig.Host, CA: restConfig.CAData},
		Namespace: to.namespace, WatchFilter: s.watchFilter,
	}
	configs := &bootstrap.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), WatchFilter: s.watchFilter}
	requests := &nodecsr.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), APIServer: toServer.Endpoint}
	nodes := &node.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	templates := &template.Reconciler{Client: mgr.GetClient(), Vendor: vendor, WatchFilter: s.watchFilter}
	keys := sshkey.New(sshkey.Options{
		Reader: mgr.GetAPIReader(), Keys: keysOf, ClusterID: to.clusterID, Namespace: s.namespace,
		Known: machines.KnownKeys, Forget: machines.ForgetKey,
	})
	for _, c := range []interface{ SetupWithManager(ctrl.Manager) error }{machines, profiles, remediations, clusters, planes, configs, requests, nodes, templates, keys} {
		if err := c.SetupWithManager(mgr); err != nil {
			return err
		}
	}
	return nil
}
