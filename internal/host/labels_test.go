package host_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

func TestLabels(t *testing.T) {
	all := func(memory, disk string) map[string]string {
		return map[string]string{
			infrav1.LabelType: "M2-L", infrav1.LabelOS: "tahoe", infrav1.LabelChip: "apple-m2-pro",
			infrav1.LabelMemory: memory, infrav1.LabelDisk: disk,
		}
	}
	for name, row := range map[string]struct {
		kind cloud.ServerType
		want map[string]string
	}{
		"decimal":      {cloud.ServerType{Chip: "Apple M2 Pro", MemoryBytes: 16_000_000_000, DiskBytes: 512_000_000_000}, all("16", "512")},
		"binary":       {cloud.ServerType{Chip: "Apple M2 Pro", MemoryBytes: 16 << 30, DiskBytes: 512_110_190_592}, all("16", "512")},
		"nothing told": {cloud.ServerType{}, map[string]string{infrav1.LabelType: "M2-L", infrav1.LabelOS: "tahoe"}},
		"no label":     {cloud.ServerType{Chip: "M2 (Pro)"}, map[string]string{infrav1.LabelType: "M2-L", infrav1.LabelOS: "tahoe"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(row.want, host.Labels(pooled(), row.kind)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
