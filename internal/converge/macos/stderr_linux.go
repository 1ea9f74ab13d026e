package macos

import "golang.org/x/sys/unix"

const noFollow = unix.O_NOFOLLOW | unix.O_NONBLOCK

// replaceFD makes old another name of fresh.
func replaceFD(fresh, old int) error { return unix.Dup3(fresh, old, 0) }
