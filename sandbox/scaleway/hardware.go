package scaleway

import (
	"context"
	"net/netip"
)

// Hardware is what stands behind the servers. The vendor calls it outside its
// lock, one call at a time for a server and in order, and takes a server to ready
// only after the call that prepares it has returned.
//
// A context ends when the vendor is closed.
type Hardware interface {
	// Erase comes at the start of a reinstall: the disk is gone, the host unreachable.
	Erase(ctx context.Context, serverID string)
	// Install comes at the end of a delivery or a reinstall: a fresh system boots
	// and accepts the given keys. An error takes the server to status error.
	Install(ctx context.Context, install Install) error
	// Reboot cuts the power and boots. Keys replace the vendor's keys on the host
	// unless they are nil.
	Reboot(ctx context.Context, serverID string, keys []string)
	// Remove comes when the server was deleted; its address is free after it.
	Remove(ctx context.Context, serverID string)
}

// Install is one installation of a system on a host.
type Install struct {
	ServerID string
	Name     string
	Zone     string
	IP       netip.Addr
	OS       OS
	Type     ServerType
	// Username and Password are the administrator's; the password is new at each install.
	Username string
	Password string
	// AuthorizedKeys are the enabled SSH keys of the server's project, without comments.
	AuthorizedKeys []string
}

// work is one call to the hardware, and what to note after it.
type work func(ctx context.Context)

// enqueue appends work for a server and starts its worker if none runs. Callers
// hold the lock.
func (f *fleet) enqueue(s *server, w work) {
	s.work = append(s.work, w)
	if s.working {
		return
	}
	s.working = true
	f.busy++
	if f.opts.Inline {
		f.waiting = append(f.waiting, s)
		return
	}
	f.workers.Go(func() { f.drain(s) })
}

// drain runs a server's work until there is none.
func (f *fleet) drain(s *server) {
	for {
		f.mu.Lock()
		if len(s.work) == 0 {
			s.working = false
			f.busy--
			f.announce()
			f.mu.Unlock()
			return
		}
		next := s.work[0]
		s.work = s.work[1:]
		f.mu.Unlock()
		next(f.ctx)
	}
}

// catchUp, with [Options.Inline], brings the state up to the clock and does the
// hardware's work on the caller's goroutine, until there is none.
func (f *fleet) catchUp() {
	if !f.opts.Inline {
		return
	}
	for {
		f.mu.Lock()
		f.advance()
		waiting := f.waiting
		f.waiting = nil
		f.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		for _, s := range waiting {
			f.drain(s)
		}
	}
}

func (f *fleet) hardwareErase(id string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		f.opts.Hardware.Erase(ctx, id)
		return nil
	}
}

func (f *fleet) hardwareReboot(id string, keys []string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		f.opts.Hardware.Reboot(ctx, id, keys)
		return nil
	}
}
