package mac

import (
	"context"
	"slices"
	"sync"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// record is what happened on a Mac since it was made, across reboots and
// installations.
type record struct {
	mu            sync.Mutex
	executions    []Execution
	verifications int
}

func (r *record) executed(e Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.executions = append(r.executions, e)
}

func (r *record) verified() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifications++
}

// Transcript is every command that has ended, oldest first. Whatever ended
// before the call, as seen over SSH, is in it.
func (m *Mac) Transcript() []Execution {
	m.settle()
	m.record.mu.Lock()
	defer m.record.mu.Unlock()
	return slices.Clone(m.record.executions)
}

// Unmodelled are the executions that asked for what the simulator does not do.
func (m *Mac) Unmodelled() []Execution {
	return slices.DeleteFunc(m.Transcript(), func(e Execution) bool { return e.Unmodelled == "" })
}

// PasswordVerifications counts how often the account's password was checked.
func (m *Mac) PasswordVerifications() int {
	m.settle()
	m.record.mu.Lock()
	defer m.record.mu.Unlock()
	return m.record.verifications
}

// settle waits until the events pid 1 has sent are here: an order is answered
// after them.
func (m *Mac) settle() {
	if run := m.current(); run != nil {
		_ = run.order(context.Background(), wire.Order{}) // a Mac that just ended has nothing more to say
	}
}
