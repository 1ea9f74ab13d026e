package status

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// Seen tells the writer of the Pod as the API server has it. What somebody else wrote over
// the status that was written last is written again, as a kubelet does: the node lifecycle
// controller says of the Pods of a Node whose lease is late that they are not Ready, and
// nobody else takes that back.
func (w *Writer) Seen(p *corev1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = p
	w.reconcile()
}

// reconcile compares the Pod that was seen last with what was written before it. An end is
// left as it is, whoever wrote it. It is called with mu held.
func (w *Writer) reconcile() {
	if w.seen == nil || w.written != w.set || !newer(w.seen.ResourceVersion, w.over) || state.HasEnded(w.seen) {
		return
	}
	differs, err := version{w.set, w.want, w.withdrawn}.changes(w.seen)
	if err != nil {
		w.log.Warn("a Pod's status cannot be compared with what was written", "err", err)
	}
	if differs {
		w.log.Info("somebody else has written the status of a Pod, writing it again")
		w.set++
		w.seen = nil
		w.notify()
	}
}

// newer is false where a version is not known: nothing was written, or what was is not compared.
func newer(seen, written string) bool {
	order, err := resourceversion.CompareResourceVersion(seen, written)
	return err == nil && order > 0
}

// changes reports whether writing v would change anything of p.
func (v version) changes(p *corev1.Pod) (bool, error) {
	patch, err := patchOf(p.UID, v)
	if err != nil {
		return false, err
	}
	before, err := json.Marshal(p)
	if err != nil {
		return false, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, patch, corev1.Pod{})
	if err != nil {
		return false, err
	}
	var patched corev1.Pod
	if err := json.Unmarshal(after, &patched); err != nil {
		return false, err
	}
	return !equality.Semantic.DeepEqual(p.Status, patched.Status), nil
}
