package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// formerFinalizer is put on Pods by the first system's agent, which alone took it
	// off: without it a Pod of its time would never go.
	formerFinalizer = "tart-kubelet.tuist.dev/vm-cleanup"
	// formerNameLimit is the length of its machines' names; a longer one ends in a dash
	// and a hash of eight characters instead.
	formerNameLimit, formerHashLength = 63, 8
	// whyFormerEnded is what is told of the end of a VM that it started.
	whyFormerEnded = "the VM was started by the agent before this one, and ended; how is not known"
)

// formerMachine is the name of the Pod's machine, where the first system's agent
// made it: <namespace>-<pod>, as the container's ID in the status has it. Empty: it
// did not.
func formerMachine(p *corev1.Pod) string {
	if len(p.Status.ContainerStatuses) != 1 {
		return ""
	}
	name, is := strings.CutPrefix(p.Status.ContainerStatuses[0].ContainerID, containerIDPrefix)
	whole := p.Namespace + "-" + p.Name
	switch {
	case !is:
		return ""
	case name == whole:
		return name
	case len(whole) > formerNameLimit && len(name) == formerNameLimit && strings.HasPrefix(whole, name[:formerNameLimit-formerHashLength-1]):
		return name
	}
	return ""
}

// formerMachines are those that workers go on with: they take their Pods' slots, and
// none as machines of others.
type formerMachines struct {
	mu    sync.Mutex
	names map[string]bool
}

func (f *formerMachines) add(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.names == nil {
		f.names = map[string]bool{}
	}
	f.names[name] = true
}

func (f *formerMachines) has(name string) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.names[name]
}

func (f *formerMachines) drop(name string) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.names, name)
}

// recordFromFormer is the record of a Pod whose VM the first system's agent started
// and that runs on; nil when there is none.
func (w *worker) recordFromFormer(ctx context.Context, p *corev1.Pod) (*entry, error) {
	name := formerMachine(p)
	if name == "" || p.Status.ContainerStatuses[0].State.Running == nil {
		return nil, nil
	}
	m, err := w.driver.Machine(ctx, name)
	if errors.Is(err, vm.ErrNotFound) || err == nil && !m.Running {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := w.recordFor(p, nil)
	r.Former, r.Step = name, stepRunning
	r.Image = p.Spec.Containers[0].Image // it is what runs, however that agent wrote it
	return &r, nil
}

// adoptFormer goes on with a machine of the first system's agent to its end. Nothing
// is done in its guest, and how it ends nobody wrote down.
func (w *worker) adoptFormer(ctx context.Context) (end, error) {
	w.former.add(w.rec.Former)
	w.slots.TakeForeign(w.rec.Former, string(w.uid))
	w.save()
	w.showNow()
	w.event(corev1.EventTypeNormal, "Adopted", "This agent goes on with VM "+w.rec.Former+", which the one before it started")
	return w.follow(ctx, w.shimGone(w.dir()), w.owedProofs())
}

// loadFormer is for Pods of the first system that come deleted or ended to this
// agent: what is left of their machine goes with them.
func (w *worker) loadFormer(ctx context.Context) error {
	name := formerMachine(w.current())
	if name == "" || w.rec.Step != "" {
		return nil
	}
	m, err := w.driver.Machine(ctx, name)
	if errors.Is(err, vm.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	w.rec.Former, w.rec.Step = name, stepEnded
	if m.Running {
		w.former.add(name)
		w.slots.TakeForeign(name, string(w.uid))
		w.rec.Step = stepRunning
	}
	return nil
}

// dropFormerFinalizer takes the first system's finalizer off a Pod that is about to
// go. A node may write a Pod's metadata with its status only.
func (w *worker) dropFormerFinalizer(ctx context.Context) error {
	p := w.current()
	if !slices.Contains(p.Finalizers, formerFinalizer) {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == formerFinalizer })
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "resourceVersion": p.ResourceVersion, "finalizers": kept}})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	_, err = w.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing the finalizer %s: %w", formerFinalizer, err)
	}
	return nil
}
