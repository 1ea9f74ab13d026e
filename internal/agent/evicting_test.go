package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/pod"
	"github.com/macfleet/macfleet/internal/agent/vmusage"
)

// holders are Pods that hold something.
type holders []pod.Holder

func (h holders) Holders() []pod.Holder { return h }

func fill(t *testing.T, path string, bytes int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A disk that cannot be read takes no logs: nobody would know when to stop. Nor does it keep those that another
// one needs gone.
func TestLogsGoOnlyWhileADiskIsShort(t *testing.T) {
	short := []health.Shortage{{Resource: corev1.ResourceEphemeralStorage}}
	for name, c := range map[string]struct {
		short  []health.Shortage
		err    error
		enough bool
	}{
		"short":                 {short, nil, false},
		"room":                  {nil, nil, true},
		"unread":                {nil, errors.New("no such volume"), true},
		"one short, one unread": {short, errors.New("no such volume"), false},
	} {
		if got := enoughDisk(t.Context(), func(context.Context) ([]health.Shortage, error) { return c.short, c.err }); got != c.enough {
			t.Errorf("%s: enough is %t", name, got)
		}
	}
}

// What an image and its clones share is no Pod's use of the disk; memory is that of the
// VM's process on the Mac. A Pod that is new here has no figures yet.
func TestWhatPodsHold(t *testing.T) {
	dir := t.TempDir()
	fill(t, filepath.Join(dir, "vms/one/disk.img"), 64<<10)
	fill(t, filepath.Join(dir, "volumes/uid-1/disk/cache/file"), 16<<10)
	fill(t, filepath.Join(dir, "volumes/uid-2/disk/cache/file"), 32<<10)
	fill(t, filepath.Join(dir, "logs/main.log"), 4<<10)
	list := holders{
		{
			Pod: &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{UID: "uid-1"},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
					Name: "side", ContainerID: "tart://tk-uid-1-0", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				}}},
			},
			VMDir: filepath.Join(dir, "vms/one"), CloneBytes: 40 << 10, LogDir: filepath.Join(dir, "logs"),
		},
		{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pulling"}}},
		{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "booting"}}, VMDir: filepath.Join(dir, "vms/two"), CloneBytes: 1 << 20},
		{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "waits in its guest"}}, VMDir: filepath.Join(dir, "vms/three")},
		// Its VM is gone, and is made anew after the back-off.
		{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid-2"}}, LogDir: filepath.Join(dir, "logs"), Ended: true},
	}
	const guest = "com.apple.Virtualization.VirtualMachine"
	runner := hostCommands{
		"ps":      "30 1 1024 0:07.00 " + guest + "\n40 1 2048 0:07.00 " + guest + "\n",
		"vm_stat": "(page size of 1 bytes)\nPages active: 5.\n",
		"lsof":    "p30\nn" + list[0].VMDir + "/disk.img\np40\nn" + list[3].VMDir + "/disk.img\n",
	}
	u := &usageOf{pods: knownPods{guests: []pod.Holder{list[0], list[3]}}, runner: runner}
	u.reader = vmusage.NewReader(runner, u.vms, clock.RealClock{})
	held := holdings{pods: list, usage: u, volumes: filepath.Join(dir, "volumes")}

	for r, want := range map[corev1.ResourceName]map[types.UID]int64{
		corev1.ResourceEphemeralStorage: {"uid-1": (64 - 40 + 16 + 4) << 10, "pulling": -1, "booting": 0, "waits in its guest": 0, "uid-2": (32 + 4) << 10},
		corev1.ResourceMemory:           {"uid-1": 1 << 20, "booting": -1, "waits in its guest": 2 << 20},
	} {
		got := held.candidates(t.Context(), r)
		if len(got) != len(want) {
			t.Errorf("%s: %+v", r, got)
		}
		for _, c := range got {
			if c.Used != want[c.Pod.UID] || (c.Container == "side") != (c.Pod.UID == "uid-1") {
				t.Errorf("%s: Pod %s with container %q uses %d bytes, want %d", r, c.Pod.UID, c.Container, c.Used, want[c.Pod.UID])
			}
		}
	}
}
