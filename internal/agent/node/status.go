package node

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// statusInterval: an unchanged status is sent this often, as a kubelet does.
	statusInterval = 5 * time.Minute
	// imageLimit and a kubelet's: the list is for the scheduler, not for people.
	imageLimit = 50
)

// reporter sends the status when it has something new to say.
type reporter struct {
	self Self
	// sent is the last status that the API server took, for the Node of uid.
	sent   corev1.NodeStatus
	sentAt time.Time
	uid    string
}

// next returns the patch to send, nil when there is nothing new.
func (r *reporter) next(n *corev1.Node, h Health, images []vm.Image, now time.Time) ([]byte, corev1.NodeStatus, error) {
	s := corev1.NodeStatus{
		Capacity:    r.self.Capacity(),
		Allocatable: r.self.Allocatable(),
		Conditions:  conditions(h, n.Status.Conditions, now),
		Addresses:   r.self.Addresses(),
		NodeInfo:    r.self.info(),
		Images:      imageList(images),
	}
	if r.uid == string(n.UID) && now.Sub(r.sentAt) < statusInterval && r.same(s) && shown(n, s) {
		return nil, s, nil
	}
	patch, err := statusPatch(s)
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

func (r *reporter) took(n *corev1.Node, s corev1.NodeStatus, now time.Time) {
	r.sent, r.sentAt, r.uid = s, now, string(n.UID)
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
// others stay. Our addresses and images are the whole list.
func statusPatch(s corev1.NodeStatus) ([]byte, error) {
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
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"capacity":    s.Capacity,
		"allocatable": s.Allocatable,
		"conditions":  conditions,
		"addresses":   addresses,
		"nodeInfo":    s.NodeInfo,
		"images":      s.Images,
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the status of the Node: %w", err)
	}
	return patch, nil
}

// imageList groups by image: a digest and the tags that the tool lists with it
// cannot be told apart by their names, so that each is an entry of its own.
func imageList(images []vm.Image) []corev1.ContainerImage {
	list := []corev1.ContainerImage{}
	for _, i := range images {
		if len(list) == imageLimit {
			break
		}
		list = append(list, corev1.ContainerImage{Names: []string{strings.TrimSpace(i.Name)}, SizeBytes: i.SizeBytes})
	}
	return list
}

// report sends what is new about the Node.
func (k *Keeper) report(ctx context.Context, n *corev1.Node) error {
	now := k.o.Clock.Now()
	patch, status, err := k.reporter.next(n, k.health, k.images, now)
	if err != nil || patch == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := k.o.Client.CoreV1().Nodes().PatchStatus(ctx, n.Name, patch); err != nil {
		return fmt.Errorf("writing the status of the Node: %w", err)
	}
	if !sameButTimes(k.reporter.sent.Conditions, status.Conditions) {
		k.o.Log.Info("Node conditions", "now", describeHealth(status.Conditions))
	}
	k.reporter.took(n, status, now)
	return nil
}
