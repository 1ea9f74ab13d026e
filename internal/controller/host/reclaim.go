package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=scalewayapplesiliconmachines;scalewayapplesiliconclusters,verbs=get;list

// Sweep looks for strays again and again, and takes those back into the pool that
// were this cluster's for certain. Without a prefix of claimed names it only
// reports. What it has seen is forgotten with the process: then it begins anew.
type Sweep struct {
	Options
	Client    client.Client
	Reader    client.Reader // uncached
	Inventory *Inventory
	Recorder  events.EventRecorder
	metrics   *metrics

	// mu guards what the metrics read beside the sweep.
	mu        sync.Mutex
	elsewhere host.Owners
	sightings map[sightingKey]host.Sighting
	refusals  map[sightingKey]host.Refusal
	reporting string
}

// sightingKey: a host that is named otherwise is another stray.
type sightingKey struct {
	uid          types.UID
	host, server string
}

// NewSweep returns a sweep over the reconciler's hosts that has seen nothing yet.
func NewSweep(r *Reconciler) *Sweep {
	return &Sweep{
		Options: r.Options, Client: r.Client, Reader: r.Reader, Inventory: r.Inventory, Recorder: r.Recorder, metrics: r.metrics,
		sightings: map[sightingKey]host.Sighting{}, refusals: map[sightingKey]host.Refusal{},
	}
}

// NeedLeaderElection keeps the sweep to one manager.
func (s *Sweep) NeedLeaderElection() bool { return true }

// Start sweeps at once and then every ReclaimInterval, until the context ends.
func (s *Sweep) Start(ctx context.Context) error {
	every(ctx, s.Clock, s.ReclaimInterval, nil, s.Once)
	return nil
}

// Once is one sweep. A read that fails ends it: nothing is taken back on the word
// of a cache alone.
func (s *Sweep) Once(ctx context.Context) {
	log := ctrl.LoggerFrom(ctx).WithName("reclaim")
	ctx = ctrl.LoggerInto(ctx, log)
	strays, err := s.sight(ctx)
	if err != nil {
		log.Error(err, "The sweep does not know the hosts")
		return
	}
	if all := s.seesAllMachines(ctx); !all || s.ClaimNamePrefix == "" {
		return
	}
	for _, stray := range strays {
		if err := s.reclaim(ctx, stray); err != nil {
			log.Error(err, "The sweep ended early", "host", stray.Name)
			return
		}
	}
}

// sight counts, from the cache, for how many sweeps each host has been a stray.
func (s *Sweep) sight(ctx context.Context) ([]*host.Host, error) {
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := s.Client.List(ctx, hosts); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	machines, err := allMachines(ctx, s.Client)
	if err != nil {
		return nil, err
	}
	owners, naming := host.OwnersOf(machines), s.naming(machines)
	sightings := map[sightingKey]host.Sighting{}
	var strays []*host.Host
	for i := range hosts.Items {
		h := &hosts.Items[i]
		kind, _ := host.Stray(h, owners, naming)
		if kind == "" || !s.obeys(h) {
			continue
		}
		key := keyOf(h)
		sighting := s.sightings[key]
		if sighting.Sweeps == 0 {
			sighting.Since = s.Clock.Now()
			ctrl.LoggerFrom(ctx).Info("Found a stray", "host", h.Name, "server", h.Status.Server.Name, "kind", kind)
		}
		sighting.Sweeps++
		sightings[key] = sighting
		strays = append(strays, h)
	}
	s.sightings = sightings
	return strays, nil
}

func keyOf(h *host.Host) sightingKey { return sightingKey{h.UID, h.Name, h.Status.Server.Name} }

// naming is what names mean, given the pools of these Machines and our own.
func (s *Sweep) naming(machines []infrav1.ScalewayAppleSiliconMachine) host.Naming {
	return host.Naming{Claimed: cmp.Or(s.ClaimNamePrefix, s.ReportNamePrefix), Pools: s.pools().Known(machines)}
}

// seesAllMachines: a manager of one namespace that may not list the Machines of
// the others cannot know what is stray; it only reports, and says so once.
func (s *Sweep) seesAllMachines(ctx context.Context) bool {
	machines, err := allMachines(ctx, s.Reader)
	if err != nil {
		if why := err.Error(); why != s.reporting {
			ctrl.LoggerFrom(ctx).Info("Strays are only reported: the Machines of all namespaces cannot be listed", "error", why)
			s.reporting = why
		}
		return false
	}
	s.reporting = ""
	s.remember(ctx, machines)
	return true
}

// reclaim reads everything again, uncached, asks the rules, and records the
// release of the host under the version that was read.
func (s *Sweep) reclaim(ctx context.Context, stray *host.Host) error {
	in, err := s.gather(ctx, stray)
	if err != nil || in.Host == nil {
		return err
	}
	if refusal := host.MayReclaim(in); refusal.Reason != "" {
		s.logRefusal(ctx, in.Host, refusal)
		return nil
	}
	taken := in.Host.DeepCopy()
	in.Host = taken
	host.Reclaim(in, uuid.NewString())
	if host.ClaimedOutside(taken, s.Namespace) {
		return nil // the manager there has a sweep of its own
	}
	controllerutil.AddFinalizer(taken, infrav1.HostFinalizer)
	err = s.Client.Update(ctx, taken)
	if apierrors.IsConflict(err) {
		return nil // somebody else has plans with it; the next sweep sees
	}
	if err != nil {
		return fmt.Errorf("recording the release of host %s: %w", stray.Name, err)
	}
	delete(s.sightings, keyOf(stray))
	delete(s.refusals, keyOf(stray))
	s.metrics.reclaimed.Inc()
	s.Recorder.Eventf(taken, nil, corev1.EventTypeNormal, "ReclaimedHost", "Reclaim",
		"server %q has no live Machine; it is wiped and returned to the pool %s", taken.Status.Server.Name, in.PoolPrefix)
	ctrl.LoggerFrom(ctx).Info("Reclaimed a stray host", "host", taken.Name, "server", taken.Status.Server.Name)
	return nil
}

// logRefusal tells once why a host that was this cluster's is left alone.
func (s *Sweep) logRefusal(ctx context.Context, h *host.Host, refusal host.Refusal) {
	if s.refusals[keyOf(h)].Reason == refusal.Reason {
		return
	}
	s.refusals[keyOf(h)] = refusal
	ctrl.LoggerFrom(ctx).Info("A stray host is left alone", "host", h.Name, "server", h.Status.Server.Name,
		"reason", refusal.Reason, "why", refusal.Message)
}

// gather reads all that decides about a host, uncached. A host that is gone or
// that was made anew gives none.
func (s *Sweep) gather(ctx context.Context, stray *host.Host) (host.ReclaimInput, error) {
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := s.Reader.List(ctx, hosts); err != nil {
		return host.ReclaimInput{}, fmt.Errorf("listing hosts: %w", err)
	}
	var now *host.Host
	for i := range hosts.Items {
		if h := &hosts.Items[i]; h.UID == stray.UID && h.Name == stray.Name {
			now = h
		}
	}
	if now == nil {
		return host.ReclaimInput{}, nil
	}
	machines, err := allMachines(ctx, s.Reader)
	if err != nil {
		return host.ReclaimInput{}, err
	}
	clusters, err := s.clustersOf(ctx, now)
	if err != nil {
		return host.ReclaimInput{}, err
	}
	node, err := nodeOf(ctx, s.NodeReader, now)
	if err != nil {
		return host.ReclaimInput{}, err
	}
	at := s.Clock.Now()
	report, listed := s.Inventory.Zone(now.Spec.Zone)
	return host.ReclaimInput{
		Host: now, Owners: host.OwnersOf(machines), Naming: s.naming(machines), PoolPrefix: s.DefaultPoolPrefix,
		Sighting: s.sightings[keyOf(now)], Clusters: clusters, NodeReady: node != nil && workload.NodeReady(node),
		Block: host.DestructionBlocked(now.Spec.Zone, hosts.Items, report, listed, at), After: s.ReclaimAfter, Now: at,
	}, nil
}

// clustersOf are the Clusters that a host may be of, uncached: that of its claim,
// or, without a claim, all that use its zone.
func (s *Sweep) clustersOf(ctx context.Context, h *host.Host) ([]host.ClusterState, error) {
	if claim := h.Spec.ClaimRef; claim != nil {
		state, err := clusterstate.Get(ctx, s.Reader, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Cluster})
		return []host.ClusterState{state}, err
	}
	states, err := clusterstate.List(ctx, s.Reader, func(infra *infrav1.ScalewayAppleSiliconCluster) bool {
		return slices.Contains(infra.Spec.Zones, h.Spec.Zone)
	})
	// It is released for the first: for one of this manager's own, where there is one.
	if own := slices.IndexFunc(states, func(c host.ClusterState) bool { return c.Namespace == s.Namespace }); own > 0 {
		states[0], states[own] = states[own], states[0]
	}
	return states, err
}

// nodeOf finds the Node that bears the host's providerID, uncached; nil when
// there is none.
func nodeOf(ctx context.Context, reader client.Reader, h *host.Host) (*corev1.Node, error) {
	nodes := &corev1.NodeList{}
	if err := reader.List(ctx, nodes); err != nil {
		return nil, fmt.Errorf("listing Nodes: %w", err)
	}
	want := host.ProviderID(h.Spec.Zone, h.Spec.ServerID)
	for i := range nodes.Items {
		if nodes.Items[i].Spec.ProviderID == want {
			return &nodes.Items[i], nil
		}
	}
	return nil, nil
}

// remember keeps the Machines that the cache does not hold, for the gauge: with
// --namespace the cache knows those of one namespace only.
func (s *Sweep) remember(ctx context.Context, all []infrav1.ScalewayAppleSiliconMachine) {
	cached, err := allMachines(ctx, s.Client, client.UnsafeDisableDeepCopy)
	if err != nil {
		return // the next sweep does
	}
	known := map[types.NamespacedName]bool{}
	for i := range cached {
		known[client.ObjectKeyFromObject(&cached[i])] = true
	}
	var others []infrav1.ScalewayAppleSiliconMachine
	for _, m := range all {
		if !known[client.ObjectKeyFromObject(&m)] {
			others = append(others, m)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elsewhere = host.OwnersOf(others)
}

// foreignOwners are the live Machines that the cache does not hold.
func (s *Sweep) foreignOwners() host.Owners {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elsewhere
}
