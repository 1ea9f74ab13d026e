package host

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
)

// gigabyte is decimal, as vendors count.
const gigabyte = 1_000_000_000

// gibibyte counts memory, which is sold in powers of two and called GB.
const gibibyte = 1 << 30

// Labels are the facts about a Mac that selectors can ask for. What is not known,
// or would be no label, is left out.
func Labels(h *Host, kind cloud.ServerType) map[string]string {
	all := map[string]string{
		infrav1.LabelType: h.Status.Server.Type,
		infrav1.LabelOS:   h.Status.Server.OSFamily,
		infrav1.LabelChip: strings.ToLower(strings.Join(strings.Fields(kind.Chip), "-")),
	}
	if kind.MemoryBytes > 0 {
		all[infrav1.LabelMemory] = strconv.FormatUint(memoryGB(kind.MemoryBytes), 10)
	}
	if kind.DiskBytes > 0 {
		all[infrav1.LabelDisk] = strconv.FormatUint((kind.DiskBytes+gigabyte/2)/gigabyte, 10)
	}
	for key, value := range all {
		if value == "" || len(validation.IsValidLabelValue(value)) > 0 {
			delete(all, key)
		}
	}
	return all
}

// memoryGB is the size as it is sold, whichever unit the vendor counted it in.
func memoryGB(bytes uint64) uint64 {
	if bytes%gibibyte == 0 {
		return bytes / gibibyte
	}
	return (bytes + gigabyte/2) / gigabyte
}

// MemoryOf is what a Mac of the type has by its own count: what both call 16 GB are
// 16 GB to some vendors, and 16 GiB to the Mac.
func MemoryOf(kind cloud.ServerType) uint64 { return memoryGB(kind.MemoryBytes) * gibibyte }
