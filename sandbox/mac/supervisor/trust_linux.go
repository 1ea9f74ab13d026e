package supervisor

import (
	"os"

	"github.com/macfleet/macfleet/sandbox/mac/process"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// trust is pid 1 as the kernel's guard of darwin programs.
type trust struct{ p *pid1 }

var _ process.Trust = trust{}

// Exec implements process.Trust.
func (t trust) Exec(program *os.File, size int64, sha256 string) error {
	inode, err := wire.InodeOfFile(program)
	if err != nil {
		return err
	}
	return t.p.amfi.Exec(inode, sha256, program, size)
}

// Origin implements process.Trust: what codesign made here runs as the twin of
// what it was made from.
func (t trust) Origin(sha256 string) string { return t.p.state.origin(sha256) }
