//go:build !linux

package guest

import "syscall"

// Attributes put a guest into a process group of its own.
func Attributes(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
