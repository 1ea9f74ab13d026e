//go:build !linux

package subprocess

import (
	"errors"
	"os/exec"
	"syscall"
)

var errNotLinux = errors.New("process groups that die with their launcher need Linux")

// Isolate does nothing outside Linux.
func Isolate(*exec.Cmd, syscall.Signal) {}

// SignalGroup fails outside Linux.
func SignalGroup(int, syscall.Signal) error { return errNotLinux }
