//go:build !linux

package cluster

import "os"

func supported() error { return ErrNotLinux }

func tryLock(*os.File) (bool, error) { return false, ErrNotLinux }

func freeBytes(string) (uint64, error) { return 0, ErrNotLinux }
