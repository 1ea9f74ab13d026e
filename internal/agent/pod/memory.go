package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/admission"
	"github.com/macfleet/macfleet/internal/agent/pod/allocation"
	"github.com/macfleet/macfleet/internal/agent/pod/state"
)

// memoryShare is one Pod's part of what the VMs of the host hold together.
type memoryShare struct {
	ledger   *allocation.Ledger
	host     admission.Host
	pod      *object
	progress *progress
	report   *reporter
}

// requests are what the scheduler counts of the Pod.
func (m *memoryShare) requests() allocation.Amount { return requestsOf(m.pod.current()) }

func requestsOf(p *corev1.Pod) allocation.Amount {
	cpus, memory := admission.Requests(p)
	return allocation.Amount{MilliCPUs: cpus, MemoryBytes: memory}
}

// admit says why the Pod does not fit beside those that were admitted.
func (m *memoryShare) admit(ctx context.Context) (*state.Failure, error) {
	return m.ledger.Admit(ctx, m.pod.uid, m.requests())
}

// resize gives the Pod the resources that it asks for by now, where the host has them
// beside the other Pods': else it keeps what it was given. Nothing of it runs.
func (m *memoryShare) resize() {
	if p := m.pod.resized(); p != nil && m.ledger.Readmit(m.pod.uid, requestsOf(p)) {
		m.pod.give(p)
	}
}

// restore enters a Pod that an agent before this one admitted. Its VM has what the
// checkpoint says; one of an older agent has what the Pod's shape is.
func (m *memoryShare) restore() {
	size := m.progress.MemoryBytes
	if size == 0 && m.progress.MayRun() {
		size = admission.ShapeOf(m.pod.current(), m.host).MemoryBytes
	}
	if size > 0 {
		size += admission.Overhead(m.pod.current())
	}
	m.ledger.Restore(m.pod.uid, m.requests(), size)
}

// acquire waits for the memory of the VM that is to be made of an image with a minimum, and
// reports whether it had to; waits is called before it does.
func (m *memoryShare) acquire(ctx context.Context, image int64, waits func()) (waited bool, err error) {
	p := m.pod.current()
	least, wanted := admission.MemoryNeed(p, m.host, image)
	overhead := admission.Overhead(p)
	given, err := m.ledger.Acquire(ctx, m.pod.uid, m.requests(), allocation.Need{Least: least + overhead, Wanted: wanted + overhead}, func(message string) {
		waited = true
		waits()
		m.report.showWaiting(state.InitialReason(p), message)
	})
	if err != nil {
		return waited, context.Cause(ctx)
	}
	if waited {
		m.report.showProgress()
	}
	m.progress.MemoryBytes = given - overhead
	return waited, nil
}

// settled says that what the Pod holds is in the ledger.
func (m *memoryShare) settled() { m.ledger.Settled(m.pod.uid) }

func (m *memoryShare) release() { m.ledger.Release(m.pod.uid) }
