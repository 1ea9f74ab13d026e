package pod

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// sweepGrace is for guests whose Pod is gone: long enough to shut down.
const sweepGrace = 10 * time.Second

// adoptSlots counts what runs already, before the first worker asks for a slot.
func (s *Supervisor) adoptSlots(ctx context.Context) error {
	machines, err := s.driver.Machines(ctx)
	if err != nil {
		return fmt.Errorf("looking what runs on this host: %w", err)
	}
	for _, m := range machines {
		if uid, _, ours := state.ParseVMName(m.Name); ours && m.Running {
			s.slots.Adopt(string(uid))
		}
	}
	s.reportUnseen(machines)
	s.slots.Foreign(foreign(machines))
	return nil
}

// reportUnseen says once of a VM that it cannot be looked at.
func (s *Supervisor) reportUnseen(machines []vm.Machine) {
	unseen := map[string]bool{}
	for _, m := range machines {
		if m.Unseen == nil {
			continue
		}
		unseen[m.Name] = true
		if !s.unseen[m.Name] {
			s.log.Warn("a VM cannot be looked at, so that it counts as a macOS guest that runs", "machine", m.Name, "err", m.Unseen)
		}
	}
	s.unseen = unseen
}

// foreign are the macOS guests that run and that no agent of ours made: each takes a place of the
// licence. Guests with another system take none.
func foreign(machines []vm.Machine) []string {
	var names []string
	for _, m := range machines {
		if _, _, ours := state.ParseVMName(m.Name); !ours && m.Running && m.MacOS {
			names = append(names, m.Name)
		}
	}
	return names
}

// sweepUntil looks for what no Pod needs, now and every sweepInterval.
func (s *Supervisor) sweepUntil(ctx context.Context) {
	ticker := s.clock.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("removing what no Pod needs failed", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// sweep stops and deletes VMs of ours, volumes and checkpoints whose Pod is not
// there, and what a Pod that is there was not rid of. It is only right once all Pods
// of the Node are known.
func (s *Supervisor) sweep(ctx context.Context) error {
	machines, err := s.driver.Machines(ctx)
	if err != nil {
		return err
	}
	s.reportUnseen(machines)
	s.slots.Foreign(foreign(machines))
	var errs []error
	left := map[types.UID]bool{}
	for _, m := range machines {
		uid, attempt, ours := state.ParseVMName(m.Name)
		if !ours || s.needs(uid, attempt) {
			continue
		}
		if err := s.removeOrphan(ctx, m.Name, uid, attempt); err != nil {
			left[uid] = true
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, s.sweepVolumes(), s.sweepCheckpoints(left))...)
}

// has reports whether a worker looks after a Pod. A Pod that ended and whose object
// is still there has its worker too.
func (s *Supervisor) has(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.workers[uid] != nil
}

// busy is the worker that looks after what there is of a Pod on the host; nil: there is none,
// or it is done with that.
func (s *Supervisor) busy(uid types.UID) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.workers[uid]; j != nil && !j.isFreed() {
		return j.worker
	}
	return nil
}

// needs reports whether a worker looks after a VM. It does not after those of the attempts
// before its own: they could not be deleted then.
func (s *Supervisor) needs(uid types.UID, attempt int) bool {
	w := s.busy(uid)
	if w == nil {
		return false
	}
	r := w.progress.published.Load()
	return r == nil || attempt >= r.Attempt
}

func (s *Supervisor) removeOrphan(ctx context.Context, name string, uid types.UID, attempt int) error {
	s.log.Info("a VM that no Pod needs is removed", "machine", name)
	if err := s.driver.Stop(ctx, name, sweepGrace); err != nil {
		return err
	}
	if err := s.shims.Kill(s.checkpoints.AttemptDir(uid, attempt)); err != nil {
		return err
	}
	if err := s.driver.Delete(ctx, name); err != nil {
		return err
	}
	if !s.has(uid) {
		s.slots.Release(string(uid))
	}
	return nil
}

// sweepVolumes removes those that no worker needs. Who needs them is asked after
// they were listed: what is made meanwhile has a worker.
func (s *Supervisor) sweepVolumes() error {
	uids, err := s.inputs.UIDs()
	if err != nil {
		return err
	}
	var errs []error
	for _, uid := range uids {
		if s.busy(uid) == nil {
			errs = append(errs, s.inputs.TearDown(uid))
		}
	}
	return errors.Join(errs...)
}

// sweepCheckpoints removes those that no worker needs, nor a VM that is left: its
// checkpoint is the way to its shim.
func (s *Supervisor) sweepCheckpoints(left map[types.UID]bool) error {
	uids, err := s.checkpoints.UIDs()
	if err != nil {
		return err
	}
	for _, uid := range uids {
		if left[uid] || s.has(uid) {
			continue
		}
		if err := s.checkpoints.Remove(uid); err != nil {
			return err
		}
	}
	return nil
}
