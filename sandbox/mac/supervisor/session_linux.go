package supervisor

import (
	"sync"
	"syscall"

	"github.com/macfleet/macfleet/sandbox/mac/process"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// session is one SSH command; its end is recorded before the client learns of it.
type session struct {
	*process.Process
	p    *pid1
	uid  int
	argv []string
	once sync.Once
}

// Wait records the command once and returns how it ended. An exit code of 127
// counts as not modelled: something in the command does not exist here.
func (s *session) Wait() syscall.WaitStatus {
	status := s.Process.Wait()
	s.once.Do(func() {
		e := wire.Execution{Argv: s.argv, UID: s.uid, RC: status.ExitStatus()}
		if status.Signaled() {
			e.RC = 128 + int(status.Signal())
		}
		if e.RC == notFoundRC {
			e.Unmodelled = "a command was not found"
		}
		s.p.record(e)
	})
	return status
}
