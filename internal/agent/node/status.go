package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/macnode"
)

const (
	// statusInterval: an unchanged status is sent this often, as a kubelet does.
	statusInterval = 5 * time.Minute
	// imageLimit and nameLimit are a kubelet's: the list is for the scheduler, not for
	// people.
	imageLimit = 50
	nameLimit  = 5
)

// reporter sends the status when it has something new to say.
type reporter struct {
	self Self
	// sent is the last status that the API server took, for the Node of uid.
	sent   corev1.NodeStatus
	sentAt time.Time
	uid    string
	// over is the resourceVersion of the Node that it was sent over.
	over string
}

// observation is what a status is made of, beside what does not change.
type observation struct {
	found  []health.Finding
	slots  slot.State
	images []corev1.ContainerImage
}

// limited lowers what depends on the guests' places.
func limited(list corev1.ResourceList, vms int) corev1.ResourceList {
	places := *resource.NewQuantity(int64(vms), resource.DecimalSI)
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, macnode.VMResource} {
		if configured := list[name]; places.Cmp(configured) < 0 {
			list[name] = places
		}
	}
	return list
}

// next returns the patch to send, nil when there is nothing new.
func (r *reporter) next(n *corev1.Node, seen observation, now time.Time) ([]byte, corev1.NodeStatus, error) {
	s := corev1.NodeStatus{
		Capacity:    r.self.Capacity(),
		Allocatable: limited(r.self.Allocatable(), seen.slots.Allocatable),
		Conditions:  conditions(seen.found, seen.slots, n.Status.Conditions, now),
		Addresses:   r.self.Addresses(),
		NodeInfo:    r.self.info(),
		// Where logs, exec and port-forward are asked for; 0: nowhere.
		DaemonEndpoints: r.self.endpoints(),
		Images:          imageList(seen.images),
	}
	version := inName(r.self.Version)
	if r.uid == string(n.UID) && now.Sub(r.sentAt) < statusInterval && r.same(s) && shown(n, s) && n.Labels[versionLabel] == version {
		return nil, s, nil
	}
	patch, err := statusPatch(s, version)
	return patch, s, err
}

// shown reports whether the Node still has our conditions as we sent them: the
// node lifecycle controller overwrites them when our lease was late.
func shown(n *corev1.Node, s corev1.NodeStatus) bool {
	var ours []corev1.NodeCondition
	for _, c := range s.Conditions {
		for _, o := range n.Status.Conditions {
			if o.Type == c.Type {
				ours = append(ours, o)
			}
		}
	}
	return sameButTimes(ours, s.Conditions)
}

func (r *reporter) recordSent(n *corev1.Node, s corev1.NodeStatus, now time.Time) {
	r.sent, r.sentAt, r.uid, r.over = s, now, string(n.UID), n.ResourceVersion
}

// before is the Node's status so far: the cache may not show yet what was sent last.
func (r *reporter) before(n *corev1.Node) corev1.NodeStatus {
	if r.uid == string(n.UID) && r.over == n.ResourceVersion {
		return r.sent
	}
	return n.Status
}

func (r *reporter) same(s corev1.NodeStatus) bool {
	if !sameButTimes(r.sent.Conditions, s.Conditions) {
		return false
	}
	a, b := r.sent, s
	a.Conditions, b.Conditions = nil, nil
	return equality.Semantic.DeepEqual(a, b)
}

// statusPatch is strategic: conditions are merged by their type and those of
// others stay. Our addresses and images are the whole list. A node may change its labels with
// its status: the Node is older than this build of the agent where it was upgraded.
func statusPatch(s corev1.NodeStatus, version string) ([]byte, error) {
	conditions := make([]map[string]any, 0, len(s.Conditions))
	for _, c := range s.Conditions {
		conditions = append(conditions, map[string]any{
			"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
			"lastHeartbeatTime": c.LastHeartbeatTime, "lastTransitionTime": c.LastTransitionTime,
		})
	}
	addresses := []any{map[string]any{"$patch": "replace"}}
	for _, a := range s.Addresses {
		addresses = append(addresses, a)
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": map[string]string{versionLabel: version}},
		"status": map[string]any{
			"capacity":        s.Capacity,
			"allocatable":     s.Allocatable,
			"conditions":      conditions,
			"addresses":       addresses,
			"nodeInfo":        s.NodeInfo,
			"daemonEndpoints": s.DaemonEndpoints,
			"images":          s.Images,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the Node: %w", err)
	}
	return patch, nil
}

// imageList keeps to a kubelet's limits.
func imageList(images []corev1.ContainerImage) []corev1.ContainerImage {
	list := []corev1.ContainerImage{}
	for _, i := range images[:min(len(images), imageLimit)] {
		list = append(list, corev1.ContainerImage{Names: i.Names[:min(len(i.Names), nameLimit)], SizeBytes: i.SizeBytes})
	}
	return list
}

// observe gathers what a status is made of; false before the host was looked at.
func (k *Keeper) observe() (observation, bool) {
	s := observation{found: k.o.Health.Findings(), slots: k.o.Slots.State()}
	if k.o.Images != nil {
		s.images = k.o.Images()
	}
	return s, len(s.found) > 0
}

// report sends what is new about the Node.
func (k *Keeper) report(ctx context.Context, n *corev1.Node) error {
	seen, known := k.observe()
	if !known {
		return nil
	}
	client := k.o.Client
	back := k.reconnected.Swap(false)
	if back {
		client, k.reporter.uid = k.o.LeaseClient, ""
	}
	now := k.o.Clock.Now()
	patch, status, err := k.reporter.next(n, seen, now)
	if err != nil || patch == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := client.Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		if back {
			k.reconnected.Store(true)
		}
		return fmt.Errorf("writing the status of the Node: %w", err)
	}
	if !sameButTimes(k.reporter.sent.Conditions, status.Conditions) {
		k.o.Log.Info("Node conditions", "now", describeHealth(status.Conditions))
	}
	k.tellChanges(k.reporter.before(n), status)
	k.reporter.recordSent(n, status, now)
	return nil
}
