// Command macsim is everything that runs inside a simulated Mac: pid 1 when
// started as "macsim init" with the host side's socket as descriptor 3, and
// each modelled command when started under its name.
package main

import (
	"os"
	"path/filepath"

	"github.com/macfleet/macfleet/sandbox/mac/process"
	"github.com/macfleet/macfleet/sandbox/mac/shims"
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
		os.Exit(shims.Main(argv))
	}
}
