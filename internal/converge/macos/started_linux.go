package macos

import "os"

// Started is the path that this program was executed by. On a simulated Mac, where
// another program stands for it, only the first argument says it.
func Started() string { return os.Args[0] }
