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
	answers, err := askMac(wire.Call{Aqua: true})
	if err == nil && len(answers) > 0 && !answers[len(answers)-1].Found {
		return errNoSession
	}
	return err
}

// macOSVersion is empty where it is not known, as outside a simulated Mac.
func macOSVersion() string {
	answers, err := askMac()
	if err != nil || len(answers) == 0 || answers[0].World == nil {
		return ""
	}
	return answers[0].World.Facts.OSVersion
}

// askMac has the simulated Mac around answer a greeting and the calls; outside of one
// there is no answer.
func askMac(calls ...wire.Call) ([]wire.Answer, error) {
	if _, err := os.Stat(wire.SocketPath); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	conn, err := wire.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var answers []wire.Answer
	for _, call := range append([]wire.Call{{Hello: &wire.Hello{UID: os.Getuid()}}}, calls...) {
		var a wire.Answer
		if err := conn.Send(call); err != nil {
			return nil, err
		}
		if _, err := conn.Receive(&a); err != nil {
			return nil, fmt.Errorf("waiting for pid 1: %w", err)
		}
		answers = append(answers, a)
	}
	return answers, nil
}
