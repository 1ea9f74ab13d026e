package volume

import (
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// guestShares is where a macOS guest sees the directories shared with it.
const guestShares = "/Volumes/My Shared Files"

// The shares of a guest. A guest has those that its Pod needs. The view of a share
// is the same directory, read-only: for mounts that ask for it.
const (
	shareWritable = "macfleet"
	shareReadable = "macfleet-ro"
	shareSecret   = "macfleet-secret"
	shareMemory   = "macfleet-memory"
	shareHostPath = "macfleet-hostpath-"
	viewSuffix    = "-view"
)

// volumesDir is where in a share its volumes are, apart from the files of ours.
const volumesDir = "volumes"

// Link is a path in the guest that leads to a volume.
type Link struct {
	// Source is the volume, or the part of it that is mounted, as the guest sees it.
	Source string
	// MountPath is where the container wants it.
	MountPath string
	// ReadOnly: the host lets nothing be written through it.
	ReadOnly bool
	// Injected: admission added it for the service account's token, nobody asked.
	Injected bool
}

// tokenMountPath is where admission mounts the token of the service account.
const tokenMountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// Injected tells the mount that admission adds to every container.
func Injected(m corev1.VolumeMount) bool {
	return m.MountPath == tokenMountPath && strings.HasPrefix(m.Name, "kube-api-access-")
}

// home is where a volume lies: a directory of the host that is shared under a
// name, and the volume's path in it.
type home struct {
	share string
	dir   string
	rel   string
	// always read-only, whatever a mount says.
	readOnly bool
}

// path of the volume on the host.
func (h home) path() string { return filepath.Join(h.dir, h.rel) }

// seen is the share through which a mount sees the volume, and the volume's path
// in that share.
func (h home) seen(readOnly bool) (vm.Share, string) {
	if !readOnly || h.readOnly {
		return vm.Share{Name: h.share, Path: h.dir, ReadOnly: h.readOnly}, h.rel
	}
	// Not the whole directory: what else is in it is not this mount's.
	dir, rel := h.dir, h.rel
	if first, rest, found := strings.Cut(rel, "/"); found && first == volumesDir {
		dir, rel = filepath.Join(dir, first), rest
	}
	return vm.Share{Name: h.share + viewSuffix, Path: dir, ReadOnly: true}, rel
}

// fromObjects: the volume's contents are made from objects of the cluster.
func fromObjects(v corev1.Volume) bool {
	return v.ConfigMap != nil || v.DownwardAPI != nil || v.Secret != nil || v.Projected != nil
}

func inMemory(v corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumMemory
}

// onRAMDisk: the volume's contents must not reach a disk.
func onRAMDisk(v corev1.Volume) bool {
	return v.Secret != nil || v.Projected != nil || inMemory(v)
}

// homeOf places a volume among the directories of its Pod. Those of the host have
// their path looked up by whoever calls.
func homeOf(d dirs, p *corev1.Pod, v corev1.Volume) home {
	rel := path.Join(volumesDir, v.Name)
	switch {
	case v.HostPath != nil:
		return hostHome(p, v)
	case inMemory(v):
		return home{share: shareMemory, dir: d.memory(), rel: rel}
	case v.EmptyDir != nil:
		return home{share: shareWritable, dir: d.report(), rel: rel}
	case onRAMDisk(v):
		return home{share: shareSecret, dir: d.secret(), rel: rel, readOnly: true}
	}
	return home{share: shareReadable, dir: d.readable(), rel: rel, readOnly: true}
}

func hostHome(p *corev1.Pod, v corev1.Volume) home {
	n := slices.IndexFunc(p.Spec.Volumes, func(o corev1.Volume) bool { return o.Name == v.Name })
	readOnly := !slices.ContainsFunc(mounts(p), func(m corev1.VolumeMount) bool { return m.Name == v.Name && !m.ReadOnly })
	return home{share: shareHostPath + strconv.Itoa(n), dir: v.HostPath.Path, readOnly: readOnly}
}

// dirs are the directories of one Pod.
type dirs struct {
	// disk and ram are the Pod's own on the disk and on the RAM disk; ram is empty
	// where the Pod needs none.
	disk, ram string
}

func (d dirs) share() string    { return filepath.Join(d.disk, "share") }
func (d dirs) report() string   { return filepath.Join(d.share(), "report") }
func (d dirs) readable() string { return filepath.Join(d.disk, "ro") }
func (d dirs) secret() string   { return filepath.Join(d.ram, "secret") }
func (d dirs) memory() string   { return filepath.Join(d.ram, "memory") }

// guestPath is where the guest sees a path of a share.
func guestPath(share, rel string) string { return path.Join(guestShares, share, rel) }
