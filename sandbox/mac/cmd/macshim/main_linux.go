// Command macshim is the modelled commands of a simulated Mac, each when started
// under its name. A Mac starts dozens a second, and what a program links costs time at
// every start: so these know nothing of SSH servers and guest agents.
package main

import (
	"os"

	"github.com/macfleet/macfleet/sandbox/mac/shims"
)

func main() { os.Exit(shims.Main(os.Args)) }
