package tart

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// relay joins a client of the control socket with the guest agent, as tart does: that one
// side hangs up is not passed on to the other, which learns of it only by what it writes.
// So the commands of a killed client live on until they print something, and a client
// that is silent does not see its agent die. A system that goes down hangs up on clients
// that have gone.
func relay(client, agent net.Conn, down <-chan struct{}) {
	var both sync.WaitGroup
	broken := func() {
		_ = client.Close()
		_ = agent.Close()
	}
	pass := func(to io.Writer, from io.Reader) {
		if _, err := io.Copy(to, from); err != nil {
			broken()
		}
	}
	both.Go(func() {
		pass(agent, client)
		go func() {
			<-down
			_ = agent.Close()
		}()
	})
	both.Go(func() { pass(client, agent) })
	both.Wait()
	broken()
}

// line is a connection with both its ends, like one over vsock.
func line() (ours, theirs net.Conn, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to the guest agent: %w", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		syscall.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "vsock") // a descriptor is not negative
		conn, ferr := net.FileConn(f)         // keeps a duplicate of its own
		_ = f.Close()
		if ferr != nil {
			err = fmt.Errorf("connecting to the guest agent: %w", ferr)
		}
		ends[i] = conn
	}
	return ends[0], ends[1], err
}
