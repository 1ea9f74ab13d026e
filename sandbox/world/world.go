package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/subprocess"
)

// poolServerAge is how old the pool's servers are: past the 24 h of their lease.
const poolServerAge = 30 * 24 * time.Hour

// World is a running sandbox.
type World struct {
	options        Options
	network        *network
	cluster        *cluster.Cluster
	vendor         *scaleway.Vendor
	vendorListener *scaleway.Listener
	macs           *macs
	key            fleetKey
	managers       []*manager
	metricsServer  *subprocess.Process
	// unmount ends that the managers' credentials follow the Secret, and unmounted is
	// closed after; nil: they never did.
	unmount   context.CancelFunc
	unmounted chan struct{}
	// held keeps the cache from removing the programs.
	held holdings
}

// Start starts a sandbox and returns when its managers are ready. When it fails,
// or ctx ends meanwhile, nothing it started is left running.
func Start(ctx context.Context, options Options) (*World, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	w := &World{options: options}
	if err := w.start(ctx); err != nil {
		return nil, errors.Join(err, w.Stop(context.WithoutCancel(ctx)))
	}
	return w, nil
}

func (w *World) start(ctx context.Context) error {
	w.held = w.options.Binaries.hold(w.options.Logger)
	if err := os.MkdirAll(w.logDir(), 0o700); err != nil {
		return fmt.Errorf("creating the sandbox's directory: %w", err)
	}
	if err := w.startVendor(ctx); err != nil {
		return err
	}
	if w.options.Bare {
		w.options.Progress("starting the control plane")
	} else {
		w.options.Progress(fmt.Sprintf("starting the control plane, and %d Macs in the vendor's pool", w.options.Hosts))
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.startCluster(groupCtx) })
	group.Go(func() error { return w.fillPool(groupCtx) })
	if err := group.Wait(); err != nil {
		return err
	}
	if w.options.Bare {
		return nil
	}
	return w.startProduct(ctx)
}

func (w *World) startVendor(ctx context.Context) error {
	if beside := w.options.Beside; beside != nil {
		w.network, w.macs, w.vendor, w.vendorListener, w.key = beside.network, beside.macs, beside.vendor, beside.vendorListener, beside.key
		return nil
	}
	network, err := newNetwork(ctx, w.options.blockBits())
	if err != nil {
		return err
	}
	twins, err := w.twins()
	if err != nil {
		return err
	}
	w.network = network
	w.macs = &macs{
		programs: w.options.Binaries.Mac, dir: filepath.Join(w.options.Dir, macsDir),
		sshPort: network.sshPort, twins: twins, guestPrograms: w.options.Binaries.guestPrograms(), log: w.options.Logger, byID: map[string]*mac.Mac{},
	}
	var hardware scaleway.Hardware = w.macs
	if w.options.StandIns != nil {
		hardware = w.options.StandIns(network.sshPort)
	}
	w.vendor = scaleway.New(scaleway.Options{
		TimeScale: w.options.TimeScale, Hardware: hardware, Logger: w.options.Logger,
		AllocateIP: network.allocate, ReleaseIP: network.release,
	})
	if w.vendorListener, err = scaleway.Listen(ctx, w.vendor, "127.0.0.1:0"); err != nil {
		return err
	}
	if w.options.Bare {
		return nil
	}
	if w.key, err = newFleetKey(); err != nil {
		return err
	}
	return w.vendor.AddSSHKey(Fleet, w.key.public)
}

// twins says which program runs where the uploaded agent would.
func (w *World) twins() (map[string]string, error) {
	hash, err := hashAgent(w.options.Binaries.AgentDir)
	return map[string]string{hash: w.options.Binaries.AgentTwin}, err
}

// Upgrade gives the managers another build of the agent, as a new release would,
// and starts them again with it.
func (w *World) Upgrade(ctx context.Context, agent Agent) error {
	hash, err := hashAgent(agent.Dir)
	if err != nil {
		return err
	}
	if err := w.macs.addTwin(hash, agent.Twin); err != nil {
		return err
	}
	for _, m := range w.managers {
		m.letGo()
		if err := m.stop(ctx); err != nil {
			return err
		}
		m.args = append(m.args, "--agent-dir="+agent.Dir)
		if err := m.start(ctx); err != nil {
			return err
		}
		m.keep(w.options.Logger)
	}
	return nil
}

func (w *World) startCluster(ctx context.Context) error {
	started, err := cluster.Start(ctx, cluster.Options{
		Binaries: w.options.Binaries.Cluster,
		Dir:      filepath.Join(w.options.Dir, clusterDir),
		LogDir:   w.logDir(),
		Port:     w.options.Port,
		AuditLog: w.options.AuditLog,

		ControllerManagerArgs: w.options.ControllerManagerArgs,
	})
	w.cluster = started
	return err
}

func (w *World) fillPool(ctx context.Context) error {
	if w.options.Beside != nil || w.options.Bare {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for n := range w.options.Hosts {
		group.Go(func() error {
			_, err := w.vendor.AddServer(ctx, scaleway.ServerSpec{
				Name: fmt.Sprintf("%s%02d", PoolPrefix, n+1), Type: ServerType, Zone: Zone, OS: OS, Age: poolServerAge,
			})
			return err
		})
	}
	return group.Wait()
}

// startProduct installs the chart and starts the managers.
func (w *World) startProduct(ctx context.Context) error {
	w.options.Progress("installing macfleet's chart and starting the manager")
	chart, err := decode(renderedChart)
	if err != nil {
		return fmt.Errorf("reading the chart: %w", err)
	}
	flags, err := managerFlags(chart)
	if err != nil {
		return err
	}
	config := w.cluster.Config()
	config.QPS, config.Burst = 200, 400
	applier, err := newApplier(config)
	if err != nil {
		return err
	}
	if w.options.Beside != nil {
		chart = slices.DeleteFunc(chart, ofFleets)
	}
	if err := applier.install(ctx, chart); err != nil {
		return err
	}
	if w.options.Beside == nil {
		if err := w.key.store(ctx, applier); err != nil {
			return err
		}
	}
	if err := storeVendorSecret(ctx, applier); err != nil {
		return err
	}
	if err := w.mountVendorSecret(ctx); err != nil {
		return err
	}
	if w.options.MetricsServer {
		if err := w.startMetricsServer(ctx, applier); err != nil {
			return err
		}
	}
	return w.startManagers(ctx, ownManager(), flags)
}

// mountVendorSecret does for the managers what a kubelet does for the chart's Pod.
func (w *World) mountVendorSecret(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	m := &mount{
		secrets: client.CoreV1().Secrets(Namespace), dir: w.vendorMount(),
		always: map[string][]byte{"SCW_API_URL": []byte(w.vendorListener.URL())},
	}
	if _, err := m.sync(ctx); err != nil {
		return err
	}
	keeping, stop := context.WithCancel(context.Background())
	w.unmount, w.unmounted = stop, make(chan struct{})
	go func() {
		defer close(w.unmounted)
		m.keep(keeping, w.options.Logger)
	}()
	return nil
}

// vendorMount is where the managers find the vendor's credentials.
func (w *World) vendorMount() string { return filepath.Join(w.options.Dir, vendorMountDir) }

func (w *World) startManagers(ctx context.Context, as account, flags []string) error {
	kubeconfig := filepath.Join(w.options.Dir, as.kubeconfig)
	if err := w.writeKubeconfig(ctx, kubeconfig, as.namespace, as.name); err != nil {
		return err
	}
	if err := w.awaitRights(ctx, as); err != nil {
		return err
	}
	for range w.options.Managers {
		m, err := w.newManager(ctx, len(w.managers)+1, kubeconfig, flags)
		if err != nil {
			return err
		}
		w.managers = append(w.managers, m)
		if err := m.start(ctx); err != nil {
			return err
		}
		m.keep(w.options.Logger)
	}
	return nil
}

// Stop ends everything the sandbox started, in the order that leaves least behind,
// and returns when it is gone. Files stay. Stopping twice is no error.
func (w *World) Stop(ctx context.Context) error {
	var errs []error
	for _, m := range w.managers {
		m.letGo()
		errs = append(errs, m.stop(ctx))
	}
	if w.metricsServer != nil {
		errs = append(errs, w.metricsServer.Stop(ctx, metricsGrace))
	}
	if w.unmount != nil {
		w.unmount()
		<-w.unmounted
	}
	if w.options.Beside == nil {
		errs = append(errs, w.stopVendor(ctx))
	}
	if w.cluster != nil {
		errs = append(errs, w.cluster.Stop(ctx))
	}
	errs = append(errs, w.held.release())
	w.held = nil
	return errors.Join(errs...)
}

// stopVendor ends the vendor and its Macs.
func (w *World) stopVendor(ctx context.Context) error {
	var errs []error
	if w.vendorListener != nil {
		errs = append(errs, w.vendorListener.Close())
		w.vendorListener = nil
	}
	if w.vendor != nil {
		w.vendor.Close()
	}
	if w.macs != nil {
		errs = append(errs, w.macs.stop(ctx))
	}
	return errors.Join(errs...)
}

func (w *World) logDir() string { return filepath.Join(w.options.Dir, logsDir) }

// Kubeconfig is the path of the administrator's kubeconfig.
func (w *World) Kubeconfig() string { return w.cluster.Kubeconfig() }

// Config is a client configuration with the administrator's rights.
func (w *World) Config() *rest.Config { return w.cluster.Config() }

// Vendor is the simulated vendor.
func (w *World) Vendor() *scaleway.Vendor { return w.vendor }

// VendorURL is where it listens.
func (w *World) VendorURL() string { return w.vendorListener.URL() }

// SSHPort is the port of every Mac.
func (w *World) SSHPort() int { return w.network.sshPort }

// Mac is the simulated Mac behind a server.
func (w *World) Mac(serverID string) (*mac.Mac, bool) { return w.macs.get(serverID) }

// MetricsURL is where the first manager serves its metrics: over TLS, with a
// certificate of its own, to whose token may get /metrics.
func (w *World) MetricsURL() string { return "https://" + w.MetricsAddress(0) + "/metrics" }

// MetricsAddress is the host and port at which the n-th manager (from 0) serves its metrics.
func (w *World) MetricsAddress(n int) string { return w.managers[n].metrics }

// ReadyURL is where the first manager says that it is ready.
func (w *World) ReadyURL() string { return w.managers[0].health }

// Managers is how many manager processes there are.
func (w *World) Managers() int { return len(w.managers) }

// KillManager kills the n-th manager (from 0) as a crash would.
// It stays dead until StartManager.
func (w *World) KillManager(n int) error {
	w.managers[n].letGo()
	return w.managers[n].current().Kill()
}

// StopManager ends the n-th manager (from 0) as a node that is drained does.
// It stays away until StartManager.
func (w *World) StopManager(ctx context.Context, n int) error {
	w.managers[n].letGo()
	return w.managers[n].stop(ctx)
}

// StartManager starts the n-th manager again and waits until it is ready. Further flags
// win over those it had, from now on.
func (w *World) StartManager(ctx context.Context, n int, flags ...string) error {
	w.managers[n].args = append(w.managers[n].args, flags...)
	if err := w.managers[n].start(ctx); err != nil {
		return err
	}
	w.managers[n].keep(w.options.Logger)
	return nil
}

// Done is closed when the control plane ended by itself.
func (w *World) Done() <-chan struct{} { return w.cluster.Done() }

// Err says why, then.
func (w *World) Err() error { return w.cluster.Err() }

// PIDs are the process ids of everything but the Macs.
func (w *World) PIDs() map[string]int {
	pids := w.cluster.PIDs()
	for _, m := range w.managers {
		pids[m.name] = m.current().PID()
	}
	if w.metricsServer != nil {
		pids[metricsServer] = w.metricsServer.PID()
	}
	return pids
}
