package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/macfleet/macfleet/internal/agent/eviction"
	"github.com/macfleet/macfleet/internal/agent/health"
	"github.com/macfleet/macfleet/internal/agent/image"
	"github.com/macfleet/macfleet/internal/agent/kube"
	"github.com/macfleet/macfleet/internal/agent/node"
	"github.com/macfleet/macfleet/internal/agent/pod"
	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/env"
	"github.com/macfleet/macfleet/internal/agent/pod/objects"
	"github.com/macfleet/macfleet/internal/agent/pod/vmruntime"
	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/slot"
	"github.com/macfleet/macfleet/internal/agent/vm/tart"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// podParts are what makes Pods, and what they are made of.
type podParts struct {
	supervisor *pod.Supervisor
	images     *image.Store
	objects    *objects.Store
}

// pods puts them together.
func (a *agent) pods(client kube.Client, events record.EventRecorder, self node.Self, driver watchedEnds, slots *slot.Gate, host eviction.Host) (podParts, error) {
	executable, err := ownFile(os.Executable)
	if err != nil {
		return podParts{}, err
	}
	home, err := tartHome(a.o, a.config)
	if err != nil {
		return podParts{}, err
	}
	p := podParts{objects: objects.New(client, nil, a.log)}
	server := client.Server()
	facts := func() env.Facts {
		return env.Facts{HostIP: hostIP(self), Allocatable: self.Allocatable(), APIServer: server}
	}
	p.images = image.New(image.Options{
		Source: driver, Dir: a.o.StateDir, PrePull: a.config.Images.PrePull,
		HighPercent: a.config.Images.GCHighPercent, LowPercent: a.config.Images.GCLowPercent,
		ReliefPercent: health.ImageReliefPercent,
		Disk: func(ctx context.Context) (free, total int64, err error) {
			d, err := a.disk(ctx, home)
			return d.FreeBytes, d.TotalBytes, err
		},
		Arrived: func(beside []string) int64 { return tart.Arrived(home, beside) },
		InUse:   func() []string { return p.supervisor.Images() },
		Known:   func() bool { return p.supervisor.Known() },
		GarbageFailed: func(message string) {
			events.Event(nodeReference(a.config.Host.Name), corev1.EventTypeWarning, "ImageGCFailed", message)
		},
		PrePullFailed: func(message string) {
			events.Event(nodeReference(a.config.Host.Name), corev1.EventTypeWarning, "FailedPrePull", message)
		},
		Log: a.log,
	})
	volumes := volume.New(volume.Options{
		Dir: volumesDir(a.o, a.config), Secrets: a.ramDisk(), Source: p.objects,
		Facts: facts, HostPaths: a.config.Pods.HostPaths,
		Own: a.ownDirs(home),
	})
	p.supervisor = pod.NewSupervisor(pod.Options{
		Client: client, Events: events, Driver: driver,
		Shims:       vmruntime.ShimProcesses{Starter: shim.Starter{Argv: []string{executable, shimVerb}}},
		Images:      p.images,
		Inputs:      pod.ClusterInputs{Objects: p.objects, Store: volumes, Facts: facts},
		Guard:       a.guard(),
		Started:     driver.keychain.Opened,
		Dir:         a.o.StateDir,
		NodeName:    a.config.Host.Name,
		HostIP:      hostIP(self),
		Host:        a.share(client, self, host),
		Slots:       slots,
		BootSession: self.Facts.BootSession,
		Log:         a.log,
	})
	return p, nil
}

// ownFile is this build's file. macOS names the program of a process as it was started: by a
// link, which a roll-out points at the next build while this one still starts shims.
func ownFile(executable func() (string, error)) (string, error) {
	path, err := executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("finding our own file, which runs VMs: %w", err)
	}
	return path, nil
}

// ownDirs are what no guest may share, whatever a profile allows: our own files, the
// console user's home and the places that tart runs from.
func (a *agent) ownDirs(tartHome string) []string {
	own := []string{
		a.o.StateDir, tartHome, volumesDir(a.o, a.config), document.ConfigDir, document.StateDir, document.InstallDir,
		"/usr/local", "/opt/homebrew", "/Applications",
	}
	if user := a.config.Host.User; user != "" {
		own = append(own, filepath.Join("/Users", user))
	}
	return own
}

// volumesDir is where volumes of Pods lie: on the volume for guests, where there is
// one, as they fill up the disk as guests do.
func volumesDir(o options, c document.AgentConfig) string {
	if o.TartHome == "" && c.Mac.GuestQuotaBytes > 0 {
		return document.PodVolumesDir
	}
	return filepath.Join(o.StateDir, "volumes")
}

// ramDisk keeps what is secret off the disk. Away from macOS, where the agent runs
// for tests only, a directory stands in for it unless the host has the tool.
func (a *agent) ramDisk() volume.RAMDisk {
	mount := filepath.Join(a.o.StateDir, document.RAMDiskName)
	if _, err := os.Stat("/usr/bin/hdiutil"); err != nil && runtime.GOOS != "darwin" {
		return volume.Directory(mount)
	}
	return &volume.HDIUtil{Mount: mount, Runner: a.host}
}

// nodeReference names the Node in events as a kubelet does: by its name also where
// others have the UID.
func nodeReference(name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: name, UID: types.UID(name)}
}

// share is what Pods can have of this host.
func (a *agent) share(client kube.Client, s node.Self, host eviction.Host) admission.Host {
	list := s.Allocatable()
	return admission.Host{
		CPUs:         int(list.Cpu().MilliValue() / 1000),
		MilliCPUs:    list.Cpu().MilliValue(),
		MemoryBytes:  list.Memory().Value(),
		StorageBytes: list.StorageEphemeral().Value(),
		MaxVMs:       s.Config.Node.MaxVMs,
		HostPaths:    a.config.Pods.HostPaths,
		Pressures:    func() []corev1.NodeConditionType { return eviction.Pressures(host.Findings()) },
		Node: func(ctx context.Context) (*corev1.Node, error) {
			return client.Nodes().Get(ctx, a.config.Host.Name, metav1.GetOptions{})
		},
	}
}
