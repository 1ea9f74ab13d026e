// Package sshkey takes the SSH keys of fleets away at the vendor when they are
// retired: a fleet is gone, or its key was replaced. The vendor puts every key of the
// project on each Mac that it installs, so one that stays opens the Macs of others
// until they are converged.
//
// The vendor's own list is the record of what was registered (package fleetkey), and
// nothing is decided from a cache. Registering is the machine controller's, which is told
// here when the vendor does not have a key any more.
package sshkey

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/fleetkey"
)

const (
	// interval is between two looks at the vendor's list: one call each.
	interval = 10 * time.Minute
	// grace is how long a key must have been found retired before it goes: a Secret
	// that is restored meanwhile, or a namespace made anew, keeps it.
	grace = time.Hour
)

// Keys are the SSH keys of the vendor's project; a Cloud is one.
type Keys interface {
	ListSSHKeys(ctx context.Context) ([]cloud.SSHKey, error)
	DeleteSSHKey(ctx context.Context, id string) error
	EnsureSSHKey(ctx context.Context, name, publicKey string) error
}

// Options of a Sweeper. Reader and Keys must be set.
type Options struct {
	// Reader reads uncached.
	Reader client.Reader
	Keys   Keys
	// ClusterID identifies the management cluster in the names of keys.
	ClusterID string
	// Namespace whose fleets are this manager's. Empty: all.
	Namespace string
	// Known are the names of keys that somebody remembers to be registered, and Forget
	// tells them that one is not any more.
	Known  func() []string
	Forget func(name string)
	// Clock for tests. Default: the real one.
	Clock clock.WithTicker
}

// Sweeper looks at the registered keys now and then.
type Sweeper struct {
	Options
	// since when each key, by its vendor's id, is found retired; why it is kept, as it
	// was last said.
	since map[string]time.Time
	kept  map[string]string
	// empty: the last list was.
	empty bool
	// lost are the names that were forgotten and are in no list since.
	lost map[string]bool
}

// New returns a sweeper with the defaults filled in.
func New(o Options) *Sweeper {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Known == nil {
		o.Known = func() []string { return nil }
	}
	if o.Forget == nil {
		o.Forget = func(string) {}
	}
	return &Sweeper{Options: o, since: map[string]time.Time{}, kept: map[string]string{}, lost: map[string]bool{}}
}

// SetupWithManager has the sweeper run while this manager leads.
func (s *Sweeper) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(s); err != nil {
		return fmt.Errorf("setting up the sweep of SSH keys: %w", err)
	}
	return nil
}

// Start sweeps until the context ends. It runs where the manager leads: one manager
// decides.
func (s *Sweeper) Start(ctx context.Context) error {
	ticker := s.Clock.NewTicker(interval)
	defer ticker.Stop()
	ctx = ctrl.LoggerInto(ctx, ctrl.Log.WithName("sshkey"))
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Info("SSH keys at the vendor could not be looked at; the next sweep tries again", "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// sweep looks at every key of the project once. A failure about one fleet does not
// keep the others from being looked at.
func (s *Sweeper) sweep(ctx context.Context) error {
	known := s.Known() // before the list: what is registered meanwhile need not be in it
	keys, err := s.Keys.ListSSHKeys(ctx)
	if err != nil {
		return fmt.Errorf("listing the SSH keys of the vendor's project: %w", err)
	}
	s.forgetLost(ctx, known, keys)
	listed := map[string]bool{}
	var last error
	for _, key := range keys {
		owner, ours := fleetkey.ParseName(s.ClusterID, key.Name, key.PublicKey)
		if !ours || s.Namespace != "" && owner.Namespace != s.Namespace {
			continue // a person's, another manager's, or not the key that we registered
		}
		listed[key.ID] = true
		if err := s.judge(ctx, key, owner); err != nil {
			last = err
		}
	}
	for id := range s.since {
		if !listed[id] {
			delete(s.since, id)
		}
	}
	for id := range s.kept {
		if !listed[id] {
			delete(s.kept, id)
		}
	}
	return last
}

// forgetLost has keys registered again that somebody took away at the vendor or disabled
// there: Macs that are installed from then on do not know them. An empty list may be a
// lack of rights, and is believed when the next one is empty, too. A name is forgotten
// once until a list has it again: one that is registered and still not listed proves the
// list wrong, and each time would make another key of that name.
func (s *Sweeper) forgetLost(ctx context.Context, known []string, keys []cloud.SSHKey) {
	believed := len(keys) > 0 || s.empty
	s.empty = len(keys) == 0
	given := givenOut(s.ClusterID, keys)
	maps.DeleteFunc(s.lost, func(name string, _ bool) bool { return given[name] })
	if !believed {
		return
	}
	for _, name := range known {
		if given[name] || s.lost[name] {
			continue
		}
		s.lost[name] = true
		s.Forget(name)
		ctrl.LoggerFrom(ctx).Info("An SSH key that was registered is missing or disabled at the vendor; it is registered again when its fleet next needs it, and Macs that were installed meanwhile do not know it", "key", name)
	}
}

// givenOut are the names of the cluster's keys that the vendor puts on Macs: it does not
// do so with a disabled one.
func givenOut(cluster string, keys []cloud.SSHKey) map[string]bool {
	names := map[string]bool{}
	for _, key := range keys {
		if _, ours := fleetkey.ParseName(cluster, key.Name, key.PublicKey); ours && !key.Disabled {
			names[key.Name] = true
		}
	}
	return names
}

func (s *Sweeper) judge(ctx context.Context, key cloud.SSHKey, owner fleetkey.Owner) error {
	log := ctrl.LoggerFrom(ctx).WithValues("key", key.Name, "fleet", owner.Fleet, "namespace", owner.Namespace)
	evidence, err := s.look(ctx, owner)
	if err != nil {
		// What could not be read proves nothing: the time begins anew.
		delete(s.since, key.ID)
		return fmt.Errorf("looking whether fleet %s/%s is gone: %w", owner.Namespace, owner.Fleet, err)
	}
	why := fleetkey.Keep(key.PublicKey, evidence)
	if why != "" {
		delete(s.since, key.ID)
		if s.kept[key.ID] != why {
			s.kept[key.ID] = why
			level := 0
			if fleetkey.InUse(key.PublicKey, evidence) {
				level = 1
			}
			log.V(level).Info("An SSH key stays registered with the vendor", "why", why)
		}
		return nil
	}
	now := s.Clock.Now()
	first, seen := s.since[key.ID]
	if !seen {
		s.since[key.ID] = now
		log.Info("An SSH key is retired; it is taken away at the vendor unless it is needed again", "after", grace.String())
		return nil
	}
	if now.Sub(first) < grace {
		return nil
	}
	return s.retire(ctx, key, owner)
}

// retire takes a key away, on evidence that has just been read. A fleet that came
// back in that very moment has its key registered again.
func (s *Sweeper) retire(ctx context.Context, key cloud.SSHKey, owner fleetkey.Owner) error {
	s.Forget(key.Name)
	if err := s.Keys.DeleteSSHKey(ctx, key.ID); err != nil && !cloud.IsNotFound(err) {
		return fmt.Errorf("taking SSH key %s away at the vendor: %w", key.Name, err)
	}
	s.Forget(key.Name)
	delete(s.since, key.ID)
	ctrl.LoggerFrom(ctx).Info("A retired SSH key was taken away at the vendor", "key", key.Name, "fleet", owner.Fleet, "namespace", owner.Namespace,
		"fingerprint", fleetkey.Fingerprint(key.PublicKey))
	evidence, err := s.look(ctx, owner)
	if err == nil && fleetkey.Keep(key.PublicKey, evidence) == "" {
		return nil
	}
	if err := s.Keys.EnsureSSHKey(ctx, key.Name, key.PublicKey); err != nil {
		return fmt.Errorf("registering SSH key %s again, for its fleet is back: %w", key.Name, err)
	}
	return err
}
