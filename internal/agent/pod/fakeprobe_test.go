package pod

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// fakeExecs are the further commands in all guests, by their words.
type fakeExecs struct {
	mu     sync.Mutex
	codes  map[string]int
	counts map[string]int
	// hang, when set, lets the named commands go on until they are killed.
	hang map[string]bool
	// given are the environments of the commands.
	given map[string][]string
}

func (e *fakeExecs) exits(words string, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.codes == nil {
		e.codes = map[string]int{}
	}
	e.codes[words] = code
}

func (e *fakeExecs) hangs(words string, hangs bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hang = map[string]bool{words: hangs}
}

func (e *fakeExecs) count(words string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[words]
}

// env is the environment that a command had last.
func (e *fakeExecs) env(words string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.given[words]
}

// begin counts a command, and says how it ends.
func (e *fakeExecs) begin(c vm.GuestCommand) (words string, code int, hangs bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	words = strings.Join(c.Argv, " ")
	if e.counts == nil {
		e.counts, e.given = map[string]int{}, map[string][]string{}
	}
	e.counts[words]++
	e.given[words] = c.Env
	return words, e.codes[words], e.hang[words]
}

func (h *fakeHost) Exec(ctx context.Context, dir string, c vm.GuestCommand, s vm.Streams) (int, error) {
	h.mu.Lock()
	alive := h.alive(dir)
	h.mu.Unlock()
	if !alive {
		return 0, shim.ErrNoShim
	}
	words, code, hangs := h.execs.begin(c)
	if hangs {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	if s.Stdout != nil {
		_, _ = io.WriteString(s.Stdout, "said "+words)
	}
	return code, nil
}

func (h *fakeHost) Dial(context.Context, string, uint16) (net.Conn, error) {
	return nil, shim.ErrPortRefused
}
