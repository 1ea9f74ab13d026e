package show

import (
	"fmt"
	"io"
	"testing"

	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
)

// BenchmarkStatus is the part of status that is ours, with 1000 hosts: the reading of the
// book, the sum, the screen.
func BenchmarkStatus(b *testing.B) {
	s := clitest.Fleet()
	for n := range 1000 {
		h, m := s.Hosts[n%8], s.Machines[n%6]
		h.Name, m.Name = fmt.Sprintf("%s-%d", h.Name, n), fmt.Sprintf("%s-%d", m.Name, n)
		s.Hosts, s.Machines = append(s.Hosts, h), append(s.Machines, m)
	}
	for b.Loop() {
		if err := StatusOf(s, reasons.Read()).Write(io.Discard, screen.Screen{Width: 120}); err != nil {
			b.Fatal(err)
		}
	}
}
