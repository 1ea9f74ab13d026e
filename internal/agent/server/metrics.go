package server

import (
	"net/http"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// resourceMetrics are what metrics-server reads.
func (s *Server) resourceMetrics(w http.ResponseWriter, r *http.Request) {
	s.usage(w, r, "resource_scrape_error", writeUsage)
}

// containerMetrics are those of a kubelet's cAdvisor that a guest has, with the labels that
// dashboards and rules choose them by.
func (s *Server) containerMetrics(w http.ResponseWriter, r *http.Request) {
	s.usage(w, r, "container_scrape_error", writeContainers)
}

// usage reads what the host and its VMs use; failed is the metric that says whether it could.
func (s *Server) usage(w http.ResponseWriter, r *http.Request, failed string, write func(*metricsText, Usage)) {
	usage, err := s.o.Stats.Read(r.Context())
	m := &metricsText{}
	failures := 0.0
	if err != nil {
		s.o.Log.Warn("usage of the host and its VMs not read", "err", err)
		failures = 1
	} else {
		write(m, usage)
	}
	m.gauge(failed, "1 if there was an error while getting container metrics, 0 otherwise", failures)
	m.send(w)
}

func writeContainers(m *metricsText, u Usage) {
	if len(u.Pods) == 0 {
		return
	}
	const cpu, memory = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
	m.family(cpu, "counter", "Cumulative cpu time consumed in seconds.")
	for _, p := range u.Pods {
		m.sampleAt(u.At, cpu, p.CPU.Seconds(), "container", p.Container, "cpu", "total", "image", imageOf(p), "namespace", p.Pod.Namespace, "pod", p.Pod.Name)
	}
	m.family(memory, "gauge", "Current working set in bytes.")
	for _, p := range u.Pods {
		m.sampleAt(u.At, memory, float64(p.MemoryBytes), "container", p.Container, "image", imageOf(p), "namespace", p.Pod.Namespace, "pod", p.Pod.Name)
	}
}

// imageOf is that of the guest, which all containers of a Pod share.
func imageOf(p PodUsage) string { return p.Pod.Spec.Containers[0].Image }

// writeUsage says of each figure when it was read, as a kubelet does: a rate over the times
// at which it was asked for would be wrong by as much as a figure is old.
func writeUsage(m *metricsText, u Usage) {
	node := func(name, kind, help string, value float64) {
		m.family(name, kind, help)
		m.sampleAt(u.At, name, value)
	}
	node("node_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the node in core-seconds", u.Node.CPU.Seconds())
	node("node_memory_working_set_bytes", "gauge", "Current working set of the node in bytes", float64(u.Node.MemoryBytes))
	each := func(at time.Time, name, kind, help string, container bool, value func(PodUsage) float64) {
		if len(u.Pods) == 0 {
			return
		}
		m.family(name, kind, help)
		for _, p := range u.Pods {
			labels := []string{"namespace", p.Pod.Namespace, "pod", p.Pod.Name}
			if container {
				labels = append([]string{"container", p.Container}, labels...)
			}
			m.sampleAt(at, name, value(p), labels...)
		}
	}
	cpu := func(p PodUsage) float64 { return p.CPU.Seconds() }
	memory := func(p PodUsage) float64 { return float64(p.MemoryBytes) }
	each(u.At, "container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the container in core-seconds", true, cpu)
	each(u.At, "container_memory_working_set_bytes", "gauge", "Current working set of the container in bytes", true, memory)
	each(time.Time{}, "container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds", true,
		func(p PodUsage) float64 { return float64(p.Started.UnixNano()) / float64(time.Second) })
	each(u.At, "pod_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed by the pod in core-seconds", false, cpu)
	each(u.At, "pod_memory_working_set_bytes", "gauge", "Current working set of the pod in bytes", false, memory)
}

// metrics are those of the agent and of the Mac.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	m := &metricsText{}
	m.family("kubelet_node_name", "gauge", "The node's name. The count is always 1.")
	m.sample("kubelet_node_name", 1, "node", s.o.NodeName)
	running := 0
	for _, p := range s.o.Backend.Pods() {
		if p.Status.Phase == corev1.PodRunning {
			running++
		}
	}
	m.gauge("kubelet_running_pods", "Number of pods that have a running VM", float64(running))
	m.gauge("tart_kubelet_streams", "Requests for logs, exec, attach and port-forward that are being served", float64(s.places.taken()))
	m.gauge("go_goroutines", "Number of goroutines that currently exist.", float64(runtime.NumGoroutine()))
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	m.gauge("go_memstats_heap_inuse_bytes", "Number of heap bytes that are in use.", float64(memory.HeapInuse))
	m.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", float64(s.started.UnixNano())/float64(time.Second))
	for _, g := range s.o.Stats.Host(r.Context()) {
		m.gauge(g.Name, g.Help, g.Value)
	}
	m.send(w)
}

// probeMetrics are what the probes have found.
func (s *Server) probeMetrics(w http.ResponseWriter) {
	m := &metricsText{}
	m.WriteString(s.o.Backend.ProbeMetrics())
	m.send(w)
}
