package node

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/agent/hostos"
)

// What the page of Pods tells people to ask for is what the scheduler can place.
func TestTheSizesOfTheDocsFit(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "pods.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| (\\d+) cores, (\\d+) GB.*\\| `cpu: (\\w+)`, `memory: (\\w+)` \\| `cpu: (\\w+)`, `memory: (\\w+)` each \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if len(rows) == 0 {
		t.Fatal("the page has no table of sizes")
	}
	for _, r := range rows {
		cores, _ := strconv.Atoi(r[1])
		gibibytes, _ := strconv.ParseInt(r[2], 10, 64)
		can := Self{Facts: hostos.Facts{CPUs: cores, MemoryBytes: gibibytes << 30}}.Allocatable()
		for guests, ask := range map[int64][]string{1: r[3:5], 2: r[5:7]} {
			for i, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				q := resource.MustParse(ask[i])
				q.Mul(guests)
				if left := can[name]; q.Cmp(left) > 0 {
					t.Errorf("%s: %d guests of %s %s, and the Node has %s", r[0], guests, name, ask[i], left.String())
				}
			}
		}
	}
}
