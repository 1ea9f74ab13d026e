package agent

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/server"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vmusage"
)

// usageOf tells the API's server what Pods and their host use.
type usageOf struct {
	pods     podSource
	reader   *vmusage.Reader
	runner   hostos.Runner
	pressure func() (hostos.Pressure, error)
	disk     func(context.Context) (hostos.Disk, error)
}

// runningPod is one of which a container runs.
type runningPod struct {
	pod    *corev1.Pod
	status corev1.ContainerStatus
}

// running lists the Pods of which a container runs, each with the first that does: one guest
// is all of them.
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
	for _, s := range statusesOf(p) {
		if s.State.Running != nil {
			return &s
		}
	}
	return nil
}

// statusesOf are those of all containers of a Pod, the main ones first.
func statusesOf(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses)
}

// vms are those that run, by the UIDs of their Pods. A VM runs also while no container of its
// Pod does: they wait to be restarted in it, or for what comes before them.
func (u *usageOf) vms(context.Context) []vmusage.VM {
	var list []vmusage.VM
	for _, g := range u.pods.Guests() {
		vm := vmusage.VM{Name: string(g.Pod.UID), Dir: g.VMDir}
		if started, found, err := shim.ReadStarted(g.LogDir); err == nil && found {
			vm.Shim = started.ShimPID
		}
		list = append(list, vm)
	}
	return list
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
