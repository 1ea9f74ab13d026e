package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
)

const (
	// managers of which one leads.
	managers = 2
	// running is the phase of a Machine that is a Ready Node.
	running = "Running"
	look    = 200 * time.Millisecond
	// atOnce is how many objects are made or deleted at the same time.
	atOnce = 16
)

// fleet is a sandbox whose Macs are stand-ins. What it waits for is read from a cache.
type fleet struct {
	*world.World
	macs   *macs
	client client.Client
	cache  cache.Cache
	// servers are those that the vendor has.
	servers int
	// patience bounds each wait.
	patience time.Duration
	ended    context.CancelFunc
}

// startFleet starts a control plane with Cluster API's core, a vendor with so many servers, and two managers.
func startFleet(ctx context.Context, s settings, binaries world.Binaries) (*fleet, error) {
	f := &fleet{servers: s.sizes[0], patience: s.patience}
	var err error
	f.World, err = world.Start(ctx, world.Options{
		Dir: s.dir, Binaries: binaries, Hosts: f.servers, TimeScale: s.timeScale, Managers: managers, Progress: func(text string) { say("%s", text) },
		StandIns: func(port int) scaleway.Hardware {
			f.macs = newMacs(port, s.converge)
			return f.macs
		},
		ManagerArgs: []string{
			"--insecure-metrics",
			// What the sandbox has otherwise than the manager by default.
			"--inventory-interval=" + s.inventory.String(), "--orphan-reclaim-interval=15m", "--bootstrap-recover-after=5m",
		},
		// There are no agents that renew Leases, and more Nodes than ranges of addresses for Pods.
		ControllerManagerArgs: []string{"--node-monitor-grace-period=24h", "--allocate-node-cidrs=false"},
	})
	if err != nil {
		return nil, err
	}
	if err := f.connect(ctx); err != nil {
		return nil, errors.Join(err, f.stop(context.WithoutCancel(ctx)))
	}
	return f, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("registering kinds: %w", err)
	}
	return scheme, nil
}

func (f *fleet) connect(ctx context.Context) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	config := rest.CopyConfig(f.Config())
	config.QPS, config.Burst = 1000, 2000
	if f.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("building a client: %w", err)
	}
	f.cache, err = cache.New(config, cache.Options{Scheme: scheme, DefaultUnsafeDisableDeepCopy: ptr.To(true), DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return fmt.Errorf("building a cache: %w", err)
	}
	ctx, f.ended = context.WithCancel(ctx)
	for _, kind := range []client.Object{&infrav1.ScalewayAppleSiliconMachine{}, &infrav1.ScalewayAppleSiliconHost{}} {
		if _, err := f.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	go func() {
		if err := f.cache.Start(ctx); err != nil {
			say("the cache ended: %v", err)
		}
	}()
	if !f.cache.WaitForCacheSync(ctx) {
		return errors.New("the cache did not come to be whole")
	}
	go f.beat(ctx)
	return nil
}

func (f *fleet) stop(ctx context.Context) error {
	if f.ended != nil {
		f.ended()
	}
	err := f.Stop(ctx)
	f.macs.stop()
	return err
}

// grow adds servers to the pool until the vendor has so many.
func (f *fleet) grow(ctx context.Context, servers int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for n := f.servers; n < servers; n++ {
		group.Go(func() error {
			_, err := f.Vendor().AddServer(ctx, scaleway.ServerSpec{
				Name: fmt.Sprintf("%s%04d", world.PoolPrefix, n+1), Type: world.ServerType, Zone: world.Zone, OS: world.OS, Age: 30 * 24 * time.Hour,
			})
			return err
		})
	}
	f.servers = max(f.servers, servers)
	return group.Wait()
}

// patchFleet changes the MachineDeployment, or the profile, of the fleet.
func (f *fleet) patchFleet(ctx context.Context, object client.Object, patch string) error {
	object.SetNamespace(world.Namespace)
	object.SetName(world.Fleet)
	if err := f.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("changing the fleet: %w", err)
	}
	return nil
}

func (f *fleet) scale(ctx context.Context, replicas int) error {
	return f.patchFleet(ctx, &clusterv1.MachineDeployment{}, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

func (f *fleet) machines(ctx context.Context) ([]infrav1.ScalewayAppleSiliconMachine, error) {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	err := f.cache.List(ctx, list, client.InNamespace(world.Namespace))
	return list.Items, err
}

func (f *fleet) hosts(ctx context.Context) ([]infrav1.ScalewayAppleSiliconHost, error) {
	list := &infrav1.ScalewayAppleSiliconHostList{}
	err := f.cache.List(ctx, list)
	return list.Items, err
}

// counts are how many Machines and hosts there are of each kind.
type counts struct {
	Machines int `json:"machines"`
	Claimed  int `json:"claimed"`
	Running  int `json:"running"`
	Leaving  int `json:"leaving"`
	Free     int `json:"free"`
	Wiping   int `json:"wiping"`
}

func (c counts) String() string {
	return fmt.Sprintf("%d Machines, of which %d have a host, %d run and %d leave; %d hosts are free and %d are being wiped",
		c.Machines, c.Claimed, c.Running, c.Leaving, c.Free, c.Wiping)
}

func count(machines []infrav1.ScalewayAppleSiliconMachine, hosts []infrav1.ScalewayAppleSiliconHost) counts {
	c := counts{Machines: len(machines)}
	for i := range machines {
		m := &machines[i]
		switch {
		case m.DeletionTimestamp != nil:
			c.Leaving++
		case m.Status.Phase == running:
			c.Running++
		}
		if m.Spec.HostRef != nil {
			c.Claimed++
		}
	}
	for i := range hosts {
		switch hosts[i].Status.Phase {
		case infrav1.HostAvailable:
			c.Free++
		case infrav1.HostReleasing, infrav1.HostWiping:
			c.Wiping++
		}
	}
	return c
}

func (f *fleet) counts(ctx context.Context) (counts, error) {
	machines, err := f.machines(ctx)
	if err != nil {
		return counts{}, err
	}
	hosts, err := f.hosts(ctx)
	return count(machines, hosts), err
}

// await waits until something holds. What is not so by then is named.
func (f *fleet) await(ctx context.Context, what string, holds func(counts) bool) error {
	var last counts
	err := wait.PollUntilContextTimeout(ctx, look, f.patience, true, func(ctx context.Context) (bool, error) {
		select {
		case <-f.Done():
			return false, f.Err()
		default:
		}
		var err error
		last, err = f.counts(ctx)
		return err == nil && holds(last), err
	})
	if err != nil {
		return fmt.Errorf("waiting for %s, with %s: %w\n%s", what, last, err, strings.Join(f.stuck(ctx), "\n"))
	}
	return nil
}

// awaitFleet waits until so many Machines run, no others are there, and all other hosts are free.
func (f *fleet) awaitFleet(ctx context.Context, replicas int) error {
	return f.await(ctx, fmt.Sprintf("%d Machines that run, and %d free hosts", replicas, f.servers-replicas), func(c counts) bool {
		return c == counts{Machines: replicas, Claimed: replicas, Running: replicas, Free: f.servers - replicas}
	})
}

// named is how many of what hangs are named.
const named = 5

// stuck names some of what is not as it should be, and why.
func (f *fleet) stuck(ctx context.Context) (all []string) {
	machines, _ := f.machines(context.WithoutCancel(ctx))
	for _, m := range machines {
		if m.Status.Phase != running && len(all) < named {
			all = append(all, fmt.Sprintf("Machine %s is %s: %s", m.Name, m.Status.Phase, why(m.Status.Conditions)))
		}
	}
	hosts, _ := f.hosts(context.WithoutCancel(ctx))
	for _, h := range hosts {
		if h.Status.Phase != infrav1.HostAvailable && h.Status.Phase != infrav1.HostInUse && len(all) < 2*named {
			all = append(all, fmt.Sprintf("host %s is %s: %s", h.Name, h.Status.Phase, why(h.Status.Conditions)))
		}
	}
	return all
}

// why is what Ready says, or else the first condition that does not hold.
func why(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, "Ready"); c != nil && c.Status != metav1.ConditionTrue {
		return c.Reason + ": " + c.Message
	}
	for _, c := range conditions {
		if c.Status != metav1.ConditionTrue {
			return c.Type + " " + c.Reason + ": " + c.Message
		}
	}
	return "nothing is wrong"
}

// logs are where the processes of the fleet log.
func logs(dir string) string { return filepath.Join(dir, "logs") }

// emptyDir makes a folder for a sandbox, whose name has to be short.
func emptyDir() (string, error) { return os.MkdirTemp("", "mfscale") }
