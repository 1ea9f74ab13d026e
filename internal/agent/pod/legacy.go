package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// legacyVM is the VM that the first system's agent made for the Pod; empty: there is
// none.
func (r *restorer) legacyVM(ctx context.Context, p *corev1.Pod) (name string, running bool, err error) {
	if name = state.LegacyVM(p); name == "" {
		return "", false, nil
	}
	m, err := r.runtime.Driver.Machine(ctx, name)
	if errors.Is(err, vm.ErrNotFound) {
		return "", false, nil
	}
	return name, m.Running, err
}

// legacyRecord is the record of a Pod whose VM the first system's agent started
// and that runs on; nil when there is none.
func (r *restorer) legacyRecord(ctx context.Context, p *corev1.Pod) (*state.Record, error) {
	if state.LegacyVM(p) == "" || p.Status.ContainerStatuses[0].State.Running == nil {
		return nil, nil
	}
	name, running, err := r.legacyVM(ctx, p)
	if err != nil || !running {
		return nil, err
	}
	found := state.RecordFor(p, r.bootSession, nil)
	found.LegacyVM, found.Step = name, state.StepRunning
	found.Image = p.Spec.Containers[0].Image // it is what runs, however that agent wrote it
	return &found, nil
}

// reattachLegacy goes on with a VM of the first system's agent to its exit. Nothing is
// done in its guest, and nobody wrote down how it exits.
func (w *worker) reattachLegacy(ctx context.Context) (state.Exit, error) {
	name := w.progress.LegacyVM
	w.adoptLegacy(name)
	w.progress.save()
	w.report.showProgress()
	w.report.event(corev1.EventTypeNormal, "Adopted", "This agent goes on with VM "+name+", which the one before it started")
	return w.follow(ctx, w.runtime.ShimGone(w.progress.dir()), w.pendingProofs())
}

// adoptLegacy gives the Pod the slot that its VM has taken as one of others.
func (w *worker) adoptLegacy(name string) {
	w.shared.slots.TakeForeign(name, w.slot.name())
}

// loadLegacy is for Pods of the first system that are deleted or have ended when this
// agent first sees them: what is left of their VM goes with them.
func (w *worker) loadLegacy(ctx context.Context) error {
	name, running, err := w.restorer.legacyVM(ctx, w.pod.current())
	if err != nil || name == "" {
		return err
	}
	w.progress.LegacyVM, w.progress.Step = name, state.StepEnded
	if running {
		w.adoptLegacy(name)
		w.progress.Step = state.StepRunning
	}
	return nil
}

// removeLegacyFinalizer takes the first system's finalizer off a Pod that is about to
// go. A node may write a Pod's metadata with its status only.
func removeLegacyFinalizer(ctx context.Context, client kube.Client, p *corev1.Pod) error {
	if !slices.Contains(p.Finalizers, state.LegacyFinalizer) {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == state.LegacyFinalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion, "finalizers": kept}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = client.Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the finalizer %s: %w", state.LegacyFinalizer, err)
	}
	return nil
}
