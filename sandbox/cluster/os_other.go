//go:build !linux

package cluster

import (
	"os"
	"os/exec"
	"syscall"
)

func supported() error { return ErrNotLinux }

func isolate(*exec.Cmd, syscall.Signal) {}

func signalGroup(int, syscall.Signal) error { return ErrNotLinux }

func tryLock(*os.File) (bool, error) { return false, ErrNotLinux }

func freeBytes(string) (uint64, error) { return 0, ErrNotLinux }
