package agent

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/server"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vmusage"
)

// usageOf tells the API's server what Pods and their host use.
type usageOf struct {
	pods   podSource
	reader *vmusage.Reader
	// guestSocket lies beside the disk of a VM.
	guestSocket func(vm string) string
	runner      hostos.Runner
	pressure    func() (hostos.Pressure, error)
	disk        func(context.Context) (hostos.Disk, error)
}

// runningPod is one with a guest.
type runningPod struct {
	pod    *corev1.Pod
	status corev1.ContainerStatus
}

// running lists the Pods whose guest runs, each with the first of its containers that
// does: one guest is all of them.
func (u *usageOf) running() []runningPod {
	var list []runningPod
	for _, p := range u.pods.Pods() {
		if s := runningContainer(p); s != nil {
			list = append(list, runningPod{p, *s})
		}
	}
	return list
}

// runningContainer is the first container of a Pod that runs; nil: none does.
func runningContainer(p *corev1.Pod) *corev1.ContainerStatus {
	for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		if s.State.Running != nil {
			return &s
		}
	}
	return nil
}

// vms are those of the Pods that run, by the Pods' UIDs.
func (u *usageOf) vms(ctx context.Context) []vmusage.VM {
	var list []vmusage.VM
	for _, r := range u.running() {
		// Where it runs is all that is asked for: an environment may be missing.
		c, _ := u.pods.Container(ctx, r.pod.Namespace, r.pod.Name, r.pod.UID, r.status.Name)
		vm := vmusage.VM{Name: string(r.pod.UID), Dir: filepath.Dir(u.guestSocket(vmOf(r.status.ContainerID)))}
		if started, found, err := shim.ReadStarted(c.Dir); err == nil && found {
			vm.Shim = started.ShimPID
		}
		list = append(list, vm)
	}
	return list
}

// vmOf takes the name of the VM out of a container's ID, tart://<vm>[/<container>[/<run>]].
func vmOf(containerID string) string {
	_, rest, _ := strings.Cut(containerID, "://")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func (u *usageOf) Read(ctx context.Context) (server.Usage, error) {
	read, err := u.reader.Read(ctx)
	if err != nil {
		return server.Usage{}, err
	}
	all := server.Usage{At: read.At, Node: server.Used(read.Host)}
	for _, r := range u.running() {
		// One that came since has no figures yet.
		if figures, found := read.VMs[string(r.pod.UID)]; found {
			all.Pods = append(all.Pods, server.PodUsage{
				Pod: r.pod, Container: r.status.Name, Started: r.status.State.Running.StartedAt.Time, Used: server.Used(figures),
			})
		}
	}
	if disk, err := u.disk(ctx); err == nil {
		all.Filesystem = server.Filesystem{Total: disk.TotalBytes, Free: disk.FreeBytes}
	}
	return all, nil
}

func (u *usageOf) Host(ctx context.Context) []server.Gauge {
	var all []server.Gauge
	add := func(name, help string, value float64) {
		all = append(all, server.Gauge{Name: "tart_kubelet_host_" + name, Help: help, Value: value})
	}
	if disk, err := u.disk(ctx); err == nil {
		add("disk_total_bytes", "Size of the volume of guests", float64(disk.TotalBytes))
		add("disk_free_bytes", "Free bytes of the volume of guests", float64(disk.FreeBytes))
	}
	if p, err := u.pressure(); err == nil {
		pressed := 0.0
		if p.Memory {
			pressed = 1
		}
		add("memory_pressure", "1 while macOS asks processes to give memory back, 0 otherwise", pressed)
	}
	if level, err := hostos.ReadThermalPressure(ctx, u.runner); err == nil {
		add("thermal_pressure_level", "How much macOS slows down to cool: 0 not at all, 1 moderate, 2 heavy, 3 trapping, 4 about to sleep", float64(level))
	}
	return all
}
