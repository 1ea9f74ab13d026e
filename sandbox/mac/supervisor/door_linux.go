package supervisor

import (
	"fmt"
	"net"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/sandbox/mac/sshd"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// door is the port SSH answers on, with what is wrong with it.
type door struct {
	p      *pid1
	server *sshd.Server

	mu       sync.Mutex
	now      wire.Door
	listener net.Listener // nil while connections are refused
	unloaded bool         // launchd's job was booted out
	foreign  []ssh.Signer // keys of an impostor, kept until the door is in order
}

// turn opens or closes the port and hands the rest to the server.
func (d *door) turn(w wire.Door) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.turnLocked(w)
}

// load closes the port, or opens it anew with an empty queue, and returns the exit code
// of launchctl. Connections that are open stay.
func (d *door) load(open bool) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unloaded = !open
	w := d.now
	w.QueueFull = w.QueueFull && !open
	if err := d.turnLocked(w); err != nil {
		d.p.log(err.Error())
		return cannotListenRC
	}
	return 0
}

// cannotListenRC is launchctl's exit code for an input/output error.
const cannotListenRC = 5

func (d *door) turnLocked(w wire.Door) error {
	foreign, err := d.foreignKeys(w.OtherHostKeys)
	if err != nil {
		return err
	}
	d.now, d.foreign = w, foreign
	d.server.Turn(w)
	switch {
	case (w.Refuse || d.unloaded) && d.listener != nil:
		err = d.listener.Close()
		d.listener = nil
	case !w.Refuse && !d.unloaded && d.listener == nil:
		err = d.open()
	}
	return err
}

func (d *door) open() error {
	l, err := net.Listen("tcp", net.JoinHostPort(d.p.cfg.Address, fmt.Sprint(d.p.cfg.Port)))
	if err != nil {
		return fmt.Errorf("listening for SSH: %w", err)
	}
	d.listener = l
	go func() {
		if err := d.server.Serve(l); err != nil {
			d.p.log(err.Error())
		}
	}()
	return nil
}

func (d *door) foreignKeys(wanted bool) ([]ssh.Signer, error) {
	if !wanted || d.foreign != nil {
		return map[bool][]ssh.Signer{true: d.foreign}[wanted], nil
	}
	var signers []ssh.Signer
	for _, kind := range hostKeyKinds() {
		key, err := newHostKey(kind)
		if err != nil {
			return nil, fmt.Errorf("%s key of an impostor: %w", kind, err)
		}
		signer, err := ssh.NewSignerFromKey(key)
		if err != nil {
			return nil, fmt.Errorf("%s key of an impostor: %w", kind, err)
		}
		signers = append(signers, signer)
	}
	return signers, nil
}

// impostor returns the keys of an impostor, when there is one.
func (d *door) impostor() []ssh.Signer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.foreign
}

func (d *door) noKeys() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now.NoKeys
}
