package server

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Stats knows what is used. Its methods may be called at the same time.
type Stats interface {
	// Read returns figures that are a few seconds old at most.
	Read(ctx context.Context) (Usage, error)
	// Host are figures of the Mac that a kubelet has none of, by the names of their
	// metrics. What cannot be read is left out.
	Host(ctx context.Context) []Gauge
}

// Usage of the Node, and of its Pods.
type Usage struct {
	At   time.Time
	Node Used
	Pods []PodUsage
	// Filesystem is the volume of guests and of the agent.
	Filesystem Filesystem
}

// Used is what something uses.
type Used struct {
	// CPU time since it began.
	CPU         time.Duration
	MemoryBytes int64
	// Cores in use at the moment; negative: unknown.
	Cores float64
}

// PodUsage is that of a Pod: of its one guest, whichever of its containers use it.
type PodUsage struct {
	Pod *corev1.Pod
	// Container that the figures stand for, and when it began.
	Container string
	Started   time.Time
	Used
}

// Filesystem in bytes.
type Filesystem struct{ Total, Free int64 }

// Gauge is one figure.
type Gauge struct {
	Name, Help string
	Value      float64
}
