package sshd

import (
	"fmt"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal asked for by a client.
type terminal struct {
	master, slave *os.File
	term          string
}

// openTerminal makes the terminal a pty-req describes (RFC 4254 section 6.2).
func openTerminal(payload []byte) (*terminal, error) {
	var v struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if err := ssh.Unmarshal(payload, &v); err != nil {
		return nil, fmt.Errorf("reading the terminal request: %w", err)
	}
	master, err := os.OpenFile("/dev/pts/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a terminal: %w", err)
	}
	t := &terminal{master: master, term: v.Term}
	if t.slave, err = openSlave(master); err != nil {
		_ = master.Close()
		return nil, err
	}
	t.size(v.Columns, v.Rows)
	return t, nil
}

func openSlave(master *os.File) (*os.File, error) {
	conn, err := master.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reaching the terminal: %w", err)
	}
	var n int
	var failure error
	err = conn.Control(func(fd uintptr) {
		if failure = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failure == nil {
			n, failure = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err == nil {
		err = failure
	}
	if err != nil {
		return nil, fmt.Errorf("unlocking the terminal: %w", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the terminal: %w", err)
	}
	return slave, nil
}

// resize follows a window-change request; without a terminal it refuses.
func (t *terminal) resize(payload []byte) bool {
	var v struct{ Columns, Rows, Width, Height uint32 }
	if t == nil || ssh.Unmarshal(payload, &v) != nil {
		return false
	}
	return t.size(v.Columns, v.Rows)
}

func (t *terminal) size(columns, rows uint32) bool {
	conn, err := t.master.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = conn.Control(func(fd uintptr) {
		ok = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}) == nil
	})
	return ok && err == nil
}

func (t *terminal) close() {
	_ = t.master.Close()
	_ = t.slave.Close()
}
