package tart

import (
	"os"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// userland is where guests have their programs from: what a simulated Mac was lent for
// this, else the machine at hand.
func userland() string {
	if _, err := os.Stat(wire.UserlandDir); err == nil {
		return wire.UserlandDir
	}
	return "/"
}
