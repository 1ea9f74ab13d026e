// Command macsim is pid 1 of a simulated Mac when started as "macsim init" with the
// host side's socket as descriptor 3, and tart and its nc when started under their names.
// The other commands are macshim.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/macfleet/macfleet/sandbox/mac/process"
	"github.com/macfleet/macfleet/sandbox/mac/supervisor"
	"github.com/macfleet/macfleet/sandbox/mac/tart"
)

// controlFD is where the host side leaves its socket.
const controlFD = 3

func main() {
	argv := os.Args
	if filepath.Base(argv[0]) == "macsim" && len(argv) > 1 {
		argv = argv[1:]
	}
	switch filepath.Base(argv[0]) {
	case "init":
		os.Exit(supervisor.Main(os.NewFile(controlFD, "control")))
	case process.DieCommand:
		process.Die()
	case "tart", "nc":
		os.Exit(tart.Main(argv, tart.Env{}))
	default:
		_, _ = fmt.Fprintf(os.Stderr, "macsim is pid 1 of a simulated Mac (init) and tart, not %q\n", argv[0])
		os.Exit(2)
	}
}
