// Command tart is the simulated tart on its own, for tests that need nothing else of a
// simulated Mac.
package main

import (
	"os"

	"github.com/macfleet/macfleet/sandbox/mac/tart"
)

func main() { os.Exit(tart.Main(os.Args, tart.Env{})) }
