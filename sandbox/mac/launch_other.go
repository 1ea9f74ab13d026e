//go:build !linux

package mac

import "errors"

// errNotLinux is all a machine without Linux namespaces can say.
var errNotLinux = errors.New("simulated Macs need Linux")

func (r *running) launch(string) error { return errNotLinux }

func remedy() string { return "simulated Macs need Linux" }
