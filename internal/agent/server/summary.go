package server

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// summary is the older form of the same figures.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	usage, err := s.o.Stats.Read(r.Context())
	if err != nil {
		refuse(w, http.StatusInternalServerError, "Internal Error: "+err.Error())
		return
	}
	writeJSON(w, summaryOf(s.o.NodeName, usage))
}

func summaryOf(node string, u Usage) stats.Summary {
	at := metav1.NewTime(u.At)
	summary := stats.Summary{
		Node: stats.NodeStats{NodeName: node, CPU: cpuOf(u.At, u.Node), Memory: memoryOf(u.At, u.Node), Fs: filesystemOf(at, u.Filesystem)},
		Pods: []stats.PodStats{},
	}
	for _, p := range u.Pods {
		cpu, memory, started := cpuOf(u.At, p.Used), memoryOf(u.At, p.Used), metav1.NewTime(p.Started)
		summary.Pods = append(summary.Pods, stats.PodStats{
			PodRef:    stats.PodReference{Name: p.Pod.Name, Namespace: p.Pod.Namespace, UID: string(p.Pod.UID)},
			StartTime: started, CPU: cpu, Memory: memory,
			Containers: []stats.ContainerStats{{Name: p.Container, StartTime: started, CPU: cpu, Memory: memory}},
		})
	}
	return summary
}

func cpuOf(at time.Time, u Used) *stats.CPUStats {
	s := &stats.CPUStats{Time: metav1.NewTime(at), UsageCoreNanoSeconds: count(int64(u.CPU))}
	if u.Cores >= 0 {
		s.UsageNanoCores = count(int64(u.Cores * float64(time.Second)))
	}
	return s
}

func memoryOf(at time.Time, u Used) *stats.MemoryStats {
	return &stats.MemoryStats{
		Time: metav1.NewTime(at), UsageBytes: count(u.MemoryBytes), WorkingSetBytes: count(u.MemoryBytes), RSSBytes: count(u.MemoryBytes),
	}
}

func filesystemOf(at metav1.Time, f Filesystem) *stats.FsStats {
	if f.Total == 0 {
		return nil
	}
	return &stats.FsStats{Time: at, CapacityBytes: count(f.Total), AvailableBytes: count(f.Free), UsedBytes: count(f.Total - f.Free)}
}

func count(n int64) *uint64 {
	unsigned := uint64(max(0, n))
	return &unsigned
}
