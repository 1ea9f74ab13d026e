package tart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// errNoSession is what the virtualization framework says to a caller without a
// console session.
var errNoSession = errors.New(`VZErrorDomain Code=-9 "The virtual machine encountered a security error." ` +
	`UserInfo={NSLocalizedFailure=Failed to get current host key., NSLocalizedFailureReason=Failed to create new HostKey.}`)

// needSession refuses where a Mac would: when the caller has no console session.
// Outside a simulated Mac nobody has one and nobody is refused.
func needSession() error {
	if _, err := os.Stat(wire.SocketPath); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	conn, err := wire.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, call := range []wire.Call{{Hello: &wire.Hello{UID: os.Getuid()}}, {Aqua: true}} {
		var a wire.Answer
		if err := conn.Send(call); err != nil {
			return err
		}
		if _, err := conn.Receive(&a); err != nil {
			return fmt.Errorf("waiting for pid 1: %w", err)
		}
		if call.Aqua && !a.Found {
			return errNoSession
		}
	}
	return nil
}
