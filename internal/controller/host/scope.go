package host

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clusterstate"
	"github.com/macfleet/macfleet/internal/host"
)

// scope is the Host that a Reconcile is for: the object as it was read or written
// last, what is known beside it, and how its spec is written. Phases change the
// status in memory; Reconcile derives the rest of it and writes it.
type scope struct {
	Client   client.Client
	Reader   client.Reader // uncached
	recorder events.EventRecorder
	clock    clock.PassiveClock
	statuses *statuses
	known    *storedServers
	// namespace is the manager's; empty: all.
	namespace string

	host     *host.Host
	stored   infrav1.ScalewayAppleSiliconHostStatus // as the API has it
	observed host.Observation
	// owner is the Machine that holds the claim, once findOwner has found it.
	owner   *infrav1.ScalewayAppleSiliconMachine
	deleted bool
	// failureAnnounced: an event of this Reconcile told already that the wipe failed.
	failureAnnounced bool
}

func (s *scope) now() time.Time { return s.clock.Now() }

// Update writes the spec under the resourceVersion that was read, so that a
// write in between fails it. The status in memory outlives the answer.
func (s *scope) Update(ctx context.Context, change func(*host.Host)) error {
	changed := s.host.DeepCopy()
	change(changed)
	if err := s.Client.Update(ctx, changed); err != nil {
		return fmt.Errorf("updating host %s: %w", s.host.Name, err)
	}
	changed.Status = s.host.Status
	s.host = changed
	return nil
}

// removeFinalizer goes with the last change of the spec.
func (s *scope) removeFinalizer(ctx context.Context, change func(*host.Host)) error {
	err := s.Update(ctx, func(h *host.Host) {
		change(h)
		controllerutil.RemoveFinalizer(h, infrav1.HostFinalizer)
	})
	s.deleted = err == nil && !s.host.DeletionTimestamp.IsZero()
	return err
}

// delete deletes the object, as the version that was read, unless the removal of its
// finalizer did that already.
func (s *scope) delete(ctx context.Context) error {
	if !s.deleted {
		uid, version := s.host.UID, s.host.ResourceVersion
		err := s.Client.Delete(ctx, s.host, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing host %s: %w", s.host.Name, err)
		}
	}
	s.deleted = true
	return nil
}

// Confirm reads the host uncached, right before an act on the server. It returns
// nil unless this is still the object, the claim and the release, or none, that
// the Reconcile works for.
func (s *scope) Confirm(ctx context.Context) (*host.Host, error) {
	now := &host.Host{}
	if err := s.Reader.Get(ctx, client.ObjectKeyFromObject(s.host), now); err != nil {
		return nil, fmt.Errorf("reading the claim again: %w", err)
	}
	released := s.host.Spec.Release != nil
	switch {
	case now.UID != s.host.UID, !host.Carries(now, *s.host.Spec.ClaimRef):
		return nil, nil
	case released != (now.Spec.Release != nil), released && !host.WipeAllowed(now):
		return nil, nil
	case released && now.Spec.Release.Policy != s.host.Spec.Release.Policy:
		return nil, nil
	}
	return now, nil
}

// clusterActive reports that the Cluster of the claim is here and not paused, uncached.
func (s *scope) clusterActive(ctx context.Context) (bool, error) {
	claim := s.host.Spec.ClaimRef
	state, err := clusterstate.Get(ctx, s.Reader, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Cluster})
	return err == nil && !state.Missing && !state.Paused, err
}

// findOwner looks for the Machine that holds the claim. Only an uncached read
// says that there is none. One that was created again under the same name is its
// owner already: its controller records the UID. Of a claim without a Machine none is looked
// for, and the Machine of another namespace in no cache: that of one namespace fails at another.
func (s *scope) findOwner(ctx context.Context) error {
	claim := s.host.Spec.ClaimRef
	if claim == nil {
		return nil
	}
	if claim.Namespace == host.NoNamespace {
		s.observed.OwnerGone = true
		return nil
	}
	readers := []client.Reader{s.Client, s.Reader}
	if host.ClaimedOutside(s.host, s.namespace) {
		readers = readers[1:]
	}
	for _, reader := range readers {
		m := &infrav1.ScalewayAppleSiliconMachine{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: claim.Namespace, Name: claim.Name}, m)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the Machine of the claim: %w", err)
		}
		if err == nil && host.MeansClaim(s.host, m) {
			s.owner = m
			return nil
		}
	}
	s.observed.OwnerGone = true
	return nil
}

// machines are those of all namespaces: from the cache, unless the host may become
// available now, for the cache may not know its Machine yet.
func (s *scope) machines(ctx context.Context) ([]infrav1.ScalewayAppleSiliconMachine, error) {
	reader := client.Reader(s.Client)
	if phase := s.stored.Phase; phase != infrav1.HostAvailable && phase != infrav1.HostForeign {
		reader = s.Reader
	}
	return allMachines(ctx, reader, client.UnsafeDisableDeepCopy)
}

// allMachines are those that the reader shows, of all namespaces.
func allMachines(ctx context.Context, reader client.Reader, opts ...client.ListOption) ([]infrav1.ScalewayAppleSiliconMachine, error) {
	machines := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := reader.List(ctx, machines, opts...); err != nil {
		return nil, fmt.Errorf("listing Machines: %w", err)
	}
	return machines.Items, nil
}

func (s *scope) event(kind, reason, note string) {
	s.recorder.Eventf(s.host, nil, kind, reason, "Reconcile", "%s", note)
}

// condition sets one of the conditions that phases report.
func (s *scope) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&s.host.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(s.now()),
	})
}

// reasonOf is the reason of one of the conditions; empty: it is not there.
func (s *scope) reasonOf(kind string) string { return reasonOf(s.host.Status, kind) }

func reasonOf(status infrav1.ScalewayAppleSiliconHostStatus, kind string) string {
	if c := meta.FindStatusCondition(status.Conditions, kind); c != nil {
		return c.Reason
	}
	return ""
}

// clearShown forgets what was shown of a claim that ended.
func (s *scope) clearShown() {
	s.host.Status.ShownSince = nil
	meta.RemoveStatusCondition(&s.host.Status.Conditions, infrav1.NameInSyncCondition)
	meta.RemoveStatusCondition(&s.host.Status.Conditions, host.CredentialsStagedCondition)
}
