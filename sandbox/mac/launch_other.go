//go:build !linux

package mac

import "errors"

// errNotLinux is all a machine without Linux namespaces can say.
var errNotLinux = errors.New("simulated Macs need Linux")

// Supported says that this is not Linux.
func Supported() error { return errNotLinux }

func (r *running) launch(string) error { return errNotLinux }

func remedy() string { return "simulated Macs need Linux" }
