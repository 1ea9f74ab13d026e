package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/health"
)

// disk is a host whose pressure the test sets.
type disk struct {
	mu      sync.Mutex
	found   []health.Finding
	changed chan struct{}
	again   int
}

func (d *disk) Findings() []health.Finding {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.found
}

func (d *disk) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

func (d *disk) LookAgain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.again++
}

func (d *disk) become(kind corev1.NodeConditionType, status corev1.ConditionStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = []health.Finding{{Type: kind, Status: status}}
	close(d.changed)
	d.changed = make(chan struct{})
}

func TestRoomIsMadeUnderDiskPressureOnly(t *testing.T) {
	host := &disk{changed: make(chan struct{})}
	freed := make(chan struct{}, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- relieve(ctx, host, func(context.Context) error {
			freed <- struct{}{}
			return errors.New("nothing to remove")
		}, slog.New(slog.DiscardHandler))
	}()
	host.become(corev1.NodeMemoryPressure, corev1.ConditionTrue)
	host.become(corev1.NodeDiskPressure, corev1.ConditionUnknown)
	host.become(corev1.NodeDiskPressure, corev1.ConditionTrue)
	select {
	case <-freed:
	case <-time.After(time.Minute):
		t.Fatal("no room was made")
	}
	host.become(corev1.NodeDiskPressure, corev1.ConditionFalse)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	host.mu.Lock()
	defer host.mu.Unlock()
	if len(freed) != 0 || host.again != 1 {
		t.Errorf("made room %d times more, looked again %d times", len(freed), host.again)
	}
}
