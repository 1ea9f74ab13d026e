package macos

import "os"

// Started is the path that this program was executed by. The kernel says it: the
// first argument is the caller's to choose, also of a program that sudo lets him
// run as root.
func Started() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}
