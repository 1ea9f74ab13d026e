package agent

import (
	"context"
	"errors"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/macfleet/macfleet/internal/agent/eviction"
	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/node"
	"github.com/macfleet/macfleet/internal/agent/pod"
	"github.com/macfleet/macfleet/internal/filetree"
)

// evicting returns what makes room on this host, and ends Pods where that is not enough.
func (a *agent) evicting(host eviction.Host, disks *health.Disks, pods podParts, usage *usageOf, self node.Self, events record.EventRecorder) *eviction.Manager {
	memory := health.Memory{Read: hostos.ReadPressure, Available: func(ctx context.Context) (int64, error) {
		used, err := hostos.ReadMemoryInUse(ctx, a.host)
		return self.Facts.MemoryBytes - used, err
	}}
	held := holdings{pods: pods.supervisor, usage: usage, volumes: volumesDir(a.o, a.config)}
	return eviction.New(eviction.Options{
		Host: host,
		Short: func(ctx context.Context) ([]health.Shortage, error) {
			ofMemory, err := memory.Short(ctx)
			ofDisk, diskErr := disks.Short(ctx)
			return append(ofMemory, ofDisk...), errors.Join(err, diskErr)
		},
		Free: func(ctx context.Context) error {
			return errors.Join(pods.supervisor.FreeLogs(func() bool { return enoughDisk(ctx, disks.Short) }), pods.images.FreeNow(ctx))
		},
		Candidates: held.candidates,
		Evict:      pods.supervisor.Evict,
		Met: func(r corev1.ResourceName) {
			events.Eventf(nodeReference(a.config.Host.Name), corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim %s", r)
		},
		Log: a.log,
	})
}

// enoughDisk reports whether no more logs need to go. Disks that cannot be read are an error of short's and not among
// what is: they are no reason to remove any.
func enoughDisk(ctx context.Context, short func(context.Context) ([]health.Shortage, error)) bool {
	found, _ := short(ctx)
	return len(found) == 0
}

// holdings tell what Pods hold of this host.
type holdings struct {
	pods interface{ Holders() []pod.Holder }
	// usage of memory, and volumes, the directory with one for each Pod's.
	usage   *usageOf
	volumes string
}

// candidates are the Pods that hold some of a resource, or are about to. A Pod without a
// VM has no memory, but what it pulls fills the disk.
func (h holdings) candidates(ctx context.Context, r corev1.ResourceName) []eviction.Candidate {
	used := h.diskOf
	if r == corev1.ResourceMemory {
		used = h.memory(ctx)
	}
	var list []eviction.Candidate
	for _, p := range h.pods.Holders() {
		if r == corev1.ResourceMemory && p.VMDir == "" {
			continue
		}
		c := eviction.Candidate{Pod: p.Pod, Used: used(p)}
		if s := runningContainer(p.Pod); s != nil {
			c.Container = s.Name
		}
		list = append(list, c)
	}
	return list
}

// memory returns what tells the bytes that a Pod's VM has of the host's memory.
func (h holdings) memory(ctx context.Context) func(pod.Holder) int64 {
	read, err := h.usage.reader.Read(ctx)
	return func(p pod.Holder) int64 {
		if figures, found := read.VMs[string(p.Pod.UID)]; err == nil && found {
			return figures.MemoryBytes
		}
		return -1
	}
}

// mostEntries that are counted of what a guest left.
const mostEntries = 1_000_000

// diskOf is what a Pod has added to the disk: what its guest wrote to its own, its volumes
// and its logs.
func (h holdings) diskOf(p pod.Holder) int64 {
	if p.VMDir == "" && !p.Ended {
		return -1
	}
	limits := filetree.Limits{Entries: mostEntries}
	used := filetree.Size(filepath.Join(h.volumes, string(p.Pod.UID)), limits) + filetree.Size(p.LogDir, limits)
	if p.VMDir != "" {
		used += max(0, filetree.Size(p.VMDir, limits)-p.CloneBytes)
	}
	return used
}
