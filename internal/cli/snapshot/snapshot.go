// Package snapshot is what the operator's verbs look at: the objects of a fleet at one
// moment, read at once, and what of them could not be read. It changes nothing.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/cluster"
)

// Snapshot is a fleet at one moment.
type Snapshot struct {
	At time.Time

	Hosts         []infrav1.ScalewayAppleSiliconHost
	Machines      []infrav1.ScalewayAppleSiliconMachine
	CoreMachines  []clusterv1.Machine
	Fleets        []clusterv1.MachineDeployment
	Templates     []infrav1.ScalewayAppleSiliconMachineTemplate
	Profiles      []infrav1.MacNodeProfile
	Zones         []infrav1.ScalewayAppleSiliconCluster
	Clusters      []clusterv1.Cluster
	HealthChecks  []clusterv1.MachineHealthCheck
	ControlPlanes []controlplanev1.ExternalControlPlane
	Remediations  []infrav1.ScalewayAppleSiliconRemediation
	Nodes         []corev1.Node
	Pods          []corev1.Pod
	Events        []corev1.Event
	// Leases are those of managers.
	Leases []coordinationv1.Lease

	// Namespace is the one that was read; empty: all were.
	Namespace string
	// Missing is what was asked for and could not be read.
	Missing []Missing

	// versions are those of the lists, for who waits for a change.
	versions map[Kind]string
}

// Missing is a kind that could not be read, and why.
type Missing struct {
	Kind Kind   `json:"kind"`
	Why  string `json:"why"`
}

// Kind is a list that can be asked for.
type Kind string

// The kinds, by the names that kubectl knows them by.
const (
	Hosts         Kind = "scalewayapplesiliconhosts"
	Machines      Kind = "scalewayapplesiliconmachines"
	Templates     Kind = "scalewayapplesiliconmachinetemplates"
	Zones         Kind = "scalewayapplesiliconclusters"
	Remediations  Kind = "scalewayapplesiliconremediations"
	Profiles      Kind = "macnodeprofiles"
	ControlPlanes Kind = "externalcontrolplanes"
	CoreMachines  Kind = "machines"
	Fleets        Kind = "machinedeployments"
	HealthChecks  Kind = "machinehealthchecks"
	Clusters      Kind = "clusters"
	Nodes         Kind = "nodes"
	// Pods are all, and PendingPods those that run nowhere yet.
	Pods        Kind = "pods"
	PendingPods Kind = "pending pods"
	Events      Kind = "events"
	// Leases are those by which managers show that they work.
	Leases Kind = "leases"
)

// list is one request, and where its answer goes.
type list struct {
	into    client.ObjectList
	store   func(*Snapshot)
	options []client.ListOption
}

func (k Kind) list() list {
	switch k {
	case Hosts:
		of := &infrav1.ScalewayAppleSiliconHostList{}
		return list{into: of, store: func(s *Snapshot) { s.Hosts = of.Items }}
	case Machines:
		of := &infrav1.ScalewayAppleSiliconMachineList{}
		return list{into: of, store: func(s *Snapshot) { s.Machines = of.Items }}
	case Templates:
		of := &infrav1.ScalewayAppleSiliconMachineTemplateList{}
		return list{into: of, store: func(s *Snapshot) { s.Templates = of.Items }}
	case Zones:
		of := &infrav1.ScalewayAppleSiliconClusterList{}
		return list{into: of, store: func(s *Snapshot) { s.Zones = of.Items }}
	case Remediations:
		of := &infrav1.ScalewayAppleSiliconRemediationList{}
		return list{into: of, store: func(s *Snapshot) { s.Remediations = of.Items }}
	case Profiles:
		of := &infrav1.MacNodeProfileList{}
		return list{into: of, store: func(s *Snapshot) { s.Profiles = of.Items }}
	case ControlPlanes:
		of := &controlplanev1.ExternalControlPlaneList{}
		return list{into: of, store: func(s *Snapshot) { s.ControlPlanes = of.Items }}
	}
	return k.listOfOthers()
}

// listOfOthers is for kinds that are not macfleet's.
func (k Kind) listOfOthers() list {
	switch k {
	case CoreMachines:
		of := &clusterv1.MachineList{}
		return list{into: of, store: func(s *Snapshot) { s.CoreMachines = of.Items }}
	case Fleets:
		of := &clusterv1.MachineDeploymentList{}
		return list{into: of, store: func(s *Snapshot) { s.Fleets = of.Items }}
	case HealthChecks:
		of := &clusterv1.MachineHealthCheckList{}
		return list{into: of, store: func(s *Snapshot) { s.HealthChecks = of.Items }}
	case Clusters:
		of := &clusterv1.ClusterList{}
		return list{into: of, store: func(s *Snapshot) { s.Clusters = of.Items }}
	case Nodes:
		of := &corev1.NodeList{}
		return list{into: of, store: func(s *Snapshot) { s.Nodes = of.Items }}
	case Leases:
		of := &coordinationv1.LeaseList{}
		named := client.MatchingFields{metav1.ObjectNameField: cluster.ManagerLease}
		return list{into: of, store: func(s *Snapshot) { s.Leases = of.Items }, options: []client.ListOption{named}}
	case Events:
		of := &corev1.EventList{}
		return list{into: of, store: func(s *Snapshot) { s.Events = of.Items }}
	}
	of := &corev1.PodList{}
	pods := list{into: of, store: func(s *Snapshot) { s.Pods = of.Items }}
	if k == PendingPods {
		pending := fields.OneTermEqualSelector("status.phase", string(corev1.PodPending))
		pods.options = []client.ListOption{client.MatchingFieldsSelector{Selector: pending}}
	}
	return pods
}

// Restless kinds change every few seconds, which says nothing: nobody is to be woken by them.
func (k Kind) Restless() bool { return k == Leases }

// List is an empty list of the kind.
func (k Kind) List() client.ObjectList { return k.list().into }

// ours are macfleet's own kinds: a cluster without them is without macfleet.
func (k Kind) ours() bool {
	return slices.Contains([]Kind{Hosts, Machines, Templates, Zones, Remediations, Profiles, ControlPlanes}, k)
}

// cluster-wide kinds have no namespace to be limited to; Pods run anywhere.
func (k Kind) namespaced() bool { return !slices.Contains([]Kind{Hosts, Nodes}, k) }

// Load reads the kinds at once, of one namespace or, where it is empty, of all. What may
// not be read, or is not installed, is in Missing. It fails when the cluster has no macfleet,
// and with a NothingError when nothing can be read.
func Load(ctx context.Context, c client.Reader, namespace string, kinds ...Kind) (*Snapshot, error) {
	return LoadNamed(ctx, c, namespace, nil, kinds...)
}

// LoadNamed reads as Load does, but of each kind in names only what bears that name: the
// others of a thousand Macs are neither sent nor decoded. A kind with an empty name is not read,
// and one that is not in names is read whole.
func LoadNamed(ctx context.Context, c client.Reader, namespace string, names map[Kind]string, kinds ...Kind) (*Snapshot, error) {
	s := &Snapshot{At: time.Now(), Namespace: namespace, versions: map[Kind]string{}}
	read, err := s.read(ctx, c, names, kinds)
	switch {
	case err != nil:
		return nil, err
	case read > 0 && len(s.Missing) == read:
		return s, NothingError{s.Missing[0]}
	}
	return s, nil
}

// Add reads more kinds into a snapshot, such as one that only some fleets need.
func (s *Snapshot) Add(ctx context.Context, c client.Reader, kinds ...Kind) error {
	_, err := s.read(ctx, c, nil, kinds)
	return err
}

// read reads kinds into s, and says how many.
func (s *Snapshot) read(ctx context.Context, c client.Reader, names map[Kind]string, kinds []Kind) (int, error) {
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool {
		name, named := names[k]
		return named && name == ""
	})
	lists := make([]list, len(kinds))
	errs := make([]error, len(kinds))
	var all sync.WaitGroup
	for i, kind := range kinds {
		lists[i] = kind.list()
		options := lists[i].options
		if kind.namespaced() {
			options = append(options, client.InNamespace(s.Namespace))
		}
		if name, named := names[kind]; named {
			options = append(options, client.MatchingFields{metav1.ObjectNameField: name})
		}
		all.Go(func() { errs[i] = c.List(ctx, lists[i].into, options...) })
	}
	all.Wait()
	for i, kind := range kinds {
		if errs[i] == nil {
			lists[i].store(s)
			s.versions[kind] = lists[i].into.GetResourceVersion()
			continue
		}
		missing, err := missingOf(kind, s.Namespace, errs[i])
		if err != nil {
			return 0, err
		}
		s.Missing = append(s.Missing, missing)
	}
	return len(kinds), nil
}

// NothingError says that none of the kinds could be read. The snapshot beside it names them all,
// for who has something else to tell.
type NothingError struct{ First Missing }

func (e NothingError) Error() string {
	return fmt.Sprintf("nothing can be shown: %s: %s", e.First.Kind, e.First.Why)
}

// missingOf says why a kind is not there; an error: nothing else will be, either.
func missingOf(kind Kind, namespace string, err error) (Missing, error) {
	if fatal := cluster.Fatal(err); fatal != nil {
		return Missing{}, fatal
	}
	switch {
	case apierrors.IsForbidden(err) && namespace == "" && kind.namespaced():
		return Missing{kind, "you may not list them in all namespaces: name one with -n, or ask for the right"}, nil
	case apierrors.IsForbidden(err):
		return Missing{kind, "you may not list them: ask for the right"}, nil
	case notInstalled(err) && kind.ours():
		return Missing{}, fmt.Errorf("this cluster has no macfleet: it knows no %s. Is it the right --context? Else install macfleet", kind)
	case notInstalled(err):
		return Missing{kind, "the cluster does not know them: is Cluster API installed?"}, nil
	}
	return Missing{}, fmt.Errorf("reading %s: %w", kind, err)
}

func notInstalled(err error) bool {
	var unknown *meta.NoKindMatchError
	return apierrors.IsNotFound(err) || errors.As(err, &unknown)
}
