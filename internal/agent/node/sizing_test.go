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
		can := allocatable(t, cores, r[2])
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

// With the runtime class the page tells people to ask for all that is left beside its overhead.
func TestTheSizesOfTheDocsFitBesideTheOverhead(t *testing.T) {
	overhead := said(t, filepath.Join("charts", "macfleet", "values.yaml"), `(?m)^  overhead: \{memory: (\w+)\}$`)
	page := said(t, filepath.Join("docs", "pods.md"), "each Pod takes (\\w+) more .* on (\\d+) GB one guest asks for `(\\w+)`, and two for `(\\w+)` each")
	if page[1] != overhead[1] {
		t.Errorf("the page says %s, and the chart %s", page[1], overhead[1])
	}
	can := allocatable(t, 8, page[2])[corev1.ResourceMemory]
	for guests, ask := range map[int64]string{1: page[3], 2: page[4]} {
		q := resource.MustParse(ask)
		q.Add(resource.MustParse(overhead[1]))
		q.Mul(guests)
		if q.Cmp(can) != 0 {
			t.Errorf("%d guests of %s take %s with their overhead, and the Node has %s", guests, ask, q.String(), can.String())
		}
	}
}

// allocatable is what a Mac has for Pods.
func allocatable(t *testing.T, cores int, gigabytes string) corev1.ResourceList {
	t.Helper()
	n, err := strconv.ParseInt(gigabytes, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return Self{Facts: hostos.Facts{CPUs: cores, MemoryBytes: n << 30}}.Allocatable()
}

// said is what a file of the repository says, and its parts.
func said(t *testing.T, file, pattern string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", file))
	if err != nil {
		t.Fatal(err)
	}
	parts := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	if parts == nil {
		t.Fatalf("%s has nothing like %s", file, pattern)
	}
	return parts
}
