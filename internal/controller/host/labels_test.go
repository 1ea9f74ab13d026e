package host

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/servertype"
)

func TestFactsAreLabels(t *testing.T) {
	w := newWorld(t)
	failing := true
	w.cloud.Types = []cloud.ServerType{{Name: "M2-L", Chip: "Apple M2 Pro", MemoryBytes: 16_000_000_000, DiskBytes: 512_000_000_000}}
	w.cloud.Fault = func(call cloudtest.Call) (error, error) {
		if call.Name == "ServerTypes" && failing {
			return cloudtest.Err(cloud.KindUnavailable), nil
		}
		return nil, nil
	}
	w.inventory.Sweep(w.ctx)
	result, err := w.reconcile()
	w.must(err)
	if w.phase() != infrav1.HostAvailable { // also when the vendor does not tell the types
		t.Fatalf("phase %s", w.phase())
	}
	want := map[string]string{infrav1.LabelType: "M2-L", infrav1.LabelOS: "tahoe", "topology.kubernetes.io/zone": zone}
	if diff := cmp.Diff(want, w.host().Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	failing = false
	if result.RequeueAfter <= 0 || result.RequeueAfter > servertype.Retry {
		t.Errorf("looks for the types again in %s", result.RequeueAfter)
	}
	w.clock.Step(result.RequeueAfter)
	_, err = w.reconcile()
	w.must(err)
	want[infrav1.LabelChip], want[infrav1.LabelMemory], want[infrav1.LabelDisk] = "apple-m2-pro", "16", "512"
	if diff := cmp.Diff(want, w.host().Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	writes, asked := w.written(), w.called("ServerTypes")
	for range 3 {
		w.clock.Step(time.Hour)
		w.must(w.step())
	}
	if w.written() != writes || w.called("ServerTypes") != asked {
		t.Errorf("%d writes and %d questions at rest", w.written()-writes, w.called("ServerTypes")-asked)
	}
}
