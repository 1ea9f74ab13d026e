// Package status writes the status of one Pod, and never an older one over a newer.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/wait"
)

// Back-off of a status that the API server does not take.
const (
	retryFirst     = 200 * time.Millisecond
	retryMost      = 10 * time.Second
	requestTimeout = 15 * time.Second
	// refusalsLast is how long a status is refused and nothing else before it is given up: a role or a policy may be
	// wrong for a moment.
	refusalsLast = 30 * time.Second
)

// Writer writes the status of one Pod. What is set later replaces what is
// still to be written, only the newest is ever sent, and it never falls behind what
// the Pod came with: it cannot go backwards.
type Writer struct {
	client kube.Client
	clock  clock.Clock
	log    *slog.Logger

	namespace, name string
	uid             types.UID

	mu   sync.Mutex
	want corev1.PodStatus
	// withdrawn: PodResizePending was set, and is not any more. A merge would keep it.
	withdrawn bool
	// set counts versions of want, written is the last one that the API server has.
	set, written uint64
	// over is the Pod's resourceVersion after the last write, seen the newest Pod that Seen told of.
	over string
	seen *corev1.Pod
	// refusing is since when want is refused and nothing else, zero while it is not; refused is
	// the last refusal once that has lasted.
	refusing time.Time
	refused  error
	// changed is closed and replaced whenever set, written, refused or gone changes.
	changed chan struct{}
	// gone: the Pod is not there any more, so that there is nothing to write.
	gone bool
}

// New returns a writer of the status of p; Run makes it write.
func New(client kube.Client, c clock.Clock, log *slog.Logger, p *corev1.Pod) *Writer {
	return &Writer{
		client: client, clock: c, log: log,
		namespace: p.Namespace, name: p.Name, uid: p.UID,
		want: *p.Status.DeepCopy(), changed: make(chan struct{}),
	}
}

// Conditions are those last set, or those the Pod came with.
func (w *Writer) Conditions() []corev1.PodCondition {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.want.Conditions
}

// Current is the status last set, or the one the Pod came with. Its conditions are this
// agent's own only, once a status was set.
func (w *Writer) Current() corev1.PodStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.want.DeepCopy()
}

// Set replaces what is to be written.
func (w *Writer) Set(s corev1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s = state.NeverBack(w.want, s)
	if w.set > 0 && equality.Semantic.DeepEqual(s, w.want) {
		return
	}
	if s.Conditions != nil {
		w.withdrawn = (w.withdrawn || pendsResize(w.want)) && !pendsResize(s)
	}
	w.want = s
	w.set++
	w.refusing, w.refused = time.Time{}, nil
	w.notify()
}

// Gone ends all writing.
func (w *Writer) Gone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	w.notify()
}

func (w *Writer) notify() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Flush waits until everything that was set is written, or the Pod is gone. It fails where
// the API server will not take it, and with ctx.
func (w *Writer) Flush(ctx context.Context) error {
	for {
		w.mu.Lock()
		done, refused, changed := w.gone || w.written == w.set, w.refused, w.changed
		w.mu.Unlock()
		switch {
		case done:
			return nil
		case refused != nil:
			return fmt.Errorf("the API server does not take a status: %w", refused)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for a status to be written: %w", context.Cause(ctx))
		}
	}
}

// Run writes until ctx ends or the Pod is gone.
func (w *Writer) Run(ctx context.Context) {
	retry := retryFirst
	for {
		v, ok := w.next(ctx)
		if !ok {
			return
		}
		answer, err := w.write(ctx, v)
		if ctx.Err() != nil && err != nil {
			return
		}
		if err != nil {
			w.log.Warn("the status of a Pod was not written, trying again", "err", err)
			w.failed(err)
			_ = wait.For(ctx, w.clock, retry) // next returns when ctx has ended
			retry = min(2*retry, retryMost)
			continue
		}
		retry = retryFirst
		w.mu.Lock()
		w.written, w.over = v.number, answer.ResourceVersion
		w.reconcile()
		w.notify()
		w.mu.Unlock()
	}
}

// failed notes since when the API server does not take a status, and gives it up once that has lasted.
func (w *Writer) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !refuses(err):
		w.refusing, w.refused = time.Time{}, nil
	case w.refusing.IsZero():
		w.refusing = w.clock.Now()
	case w.clock.Since(w.refusing) >= refusalsLast:
		w.refused = err
		w.notify()
	}
}

// refuses: the API server has looked at a status and does not take it. A webhook that denies without a code answers as
// to a bad request, and others answer as they like.
func refuses(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// version is a status to be written.
type version struct {
	number    uint64
	status    corev1.PodStatus
	withdrawn bool
}

func pendsResize(s corev1.PodStatus) bool {
	return slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
}

// next waits for something to write.
func (w *Writer) next(ctx context.Context) (version, bool) {
	for {
		w.mu.Lock()
		v, changed, gone := version{w.set, w.want, w.withdrawn}, w.changed, w.gone
		pending := w.written != w.set
		w.mu.Unlock()
		switch {
		case gone || ctx.Err() != nil:
			return version{}, false
		case pending:
			return v, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (w *Writer) write(ctx context.Context, v version) (*corev1.Pod, error) {
	patch, err := patchOf(w.uid, v)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := w.client.Pods(w.namespace).Patch(ctx, w.name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if IsGone(err, w.name) {
		w.Gone()
		return &corev1.Pod{}, nil
	}
	return answer, err
}

// patchOf writes the fields that this agent owns and no others: conditions are
// merged by their type, and the UID keeps the patch from another Pod of the name.
func patchOf(uid types.UID, v version) ([]byte, error) {
	s := v.status
	conditions := conditionPatches(s.Conditions)
	if v.withdrawn {
		conditions = append(conditions, map[string]any{"$patch": "delete", "type": corev1.PodResizePending})
	}
	own := map[string]any{
		"observedGeneration": s.ObservedGeneration,
		"phase":              s.Phase,
		"reason":             orNull(s.Reason),
		"message":            orNull(s.Message),
		"startTime":          s.StartTime,
		"conditions":         conditions,
		"containerStatuses":  s.ContainerStatuses,
	}
	if len(s.InitContainerStatuses) > 0 {
		own["initContainerStatuses"] = s.InitContainerStatuses
	}
	if len(s.EphemeralContainerStatuses) > 0 {
		own["ephemeralContainerStatuses"] = s.EphemeralContainerStatuses
	}
	if s.HostIP != "" {
		// A merge by address would keep the one that the Mac had before.
		own["hostIP"], own["hostIPs"] = s.HostIP, []any{map[string]any{"$patch": "replace"}, corev1.HostIP{IP: s.HostIP}}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": own})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of a Pod: %w", err)
	}
	return patch, nil
}

// conditionPatches says explicitly what is empty: a merge would keep the reason of
// the status before.
func conditionPatches(list []corev1.PodCondition) []map[string]any {
	patches := make([]map[string]any, 0, len(list))
	for _, c := range list {
		patches = append(patches, map[string]any{
			"type":               c.Type,
			"status":             c.Status,
			"reason":             orNull(c.Reason),
			"message":            orNull(c.Message),
			"lastTransitionTime": c.LastTransitionTime,
			"observedGeneration": c.ObservedGeneration,
		})
	}
	return patches
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
