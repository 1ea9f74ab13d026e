package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// macs stand in for the Macs behind the vendor's servers, of which no machine runs a thousand. Each answers
// SSH at its server's address as a Mac does, and becomes a Node. It remembers since its last installation
// whose it is: what it is told against that is a complaint.
type macs struct {
	port int
	// converge is about how long a Mac takes to become what it is told to be.
	converge time.Duration
	// join makes a Mac a Node.
	join func(context.Context, document.Desired) error

	mu         sync.Mutex
	byServer   map[string]*standIn
	converged  int
	unjoined   int
	complaints []string
}

var _ scaleway.Hardware = (*macs)(nil)

func newMacs(port int, converge time.Duration) *macs {
	return &macs{port: port, converge: converge, join: join, byServer: map[string]*standIn{}}
}

// Install gives a server a fresh system: with keys, a password and a host key of its own, and nobody's.
func (m *macs) Install(ctx context.Context, install scaleway.Install) error {
	m.Erase(ctx, install.ServerID)
	mac, err := newStandIn(ctx, m, install)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byServer[install.ServerID] = mac
	return nil
}

// Erase ends all that answers at the server's address.
func (m *macs) Erase(_ context.Context, id string) {
	m.mu.Lock()
	mac := m.byServer[id]
	delete(m.byServer, id)
	m.mu.Unlock()
	if mac != nil {
		mac.stop()
	}
}

// Reboot has a Mac answer as after another boot.
func (m *macs) Reboot(_ context.Context, id string, _ []string) {
	if mac := m.of(id); mac != nil {
		mac.reboot()
	}
}

// Remove takes the Mac of a deleted server away.
func (m *macs) Remove(ctx context.Context, id string) { m.Erase(ctx, id) }

func (m *macs) of(id string) *standIn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byServer[id]
}

// owners are the Machines that the Macs were made nodes of since they were installed, by server.
func (m *macs) owners() map[string]string {
	m.mu.Lock()
	all := make([]*standIn, 0, len(m.byServer))
	for _, mac := range m.byServer {
		all = append(all, mac)
	}
	m.mu.Unlock()
	owners := map[string]string{}
	for _, mac := range all {
		owners[mac.server] = mac.whose()
	}
	return owners
}

// complain takes down what nobody may do to a Mac.
func (m *macs) complain(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.complaints = append(m.complaints, fmt.Sprintf(format, args...))
}

// complained are the complaints since an earlier look.
func (m *macs) complained(after int) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.complaints[after:])
}

// note tells of a try to become a Node that failed, the first ones of many.
func (m *macs) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unjoined++; m.unjoined <= named {
		say("a Mac is no Node yet: %v", err)
	}
}

// hasConverged counts a push that ended well, and pushes says how many did.
func (m *macs) hasConverged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.converged++
}

func (m *macs) pushes() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.converged
}

// stop ends all of them.
func (m *macs) stop() {
	m.mu.Lock()
	all := m.byServer
	m.byServer = map[string]*standIn{}
	m.mu.Unlock()
	for _, mac := range all {
		mac.stop()
	}
}
