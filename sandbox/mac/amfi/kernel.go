package amfi

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// KillReason is what launchd prints for a process killed for its signature.
const KillReason = "OS_REASON_CODESIGNING"

// KilledError says that the kernel kills a program as soon as it starts.
type KilledError struct {
	// Err is what is wrong: ErrUnsigned, ErrBroken or ErrReused.
	Err error
}

func (e *KilledError) Error() string { return "killed for its code signature: " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *KilledError) Unwrap() error { return e.Err }

// ErrReused is a file whose content changed after it was first executed: the
// kernel holds the new pages against the old signature.
var ErrReused = errors.New("the file was changed in place after it had been executed")

// Kernel is what one boot of a Mac remembers of the programs it executed. The
// zero value is ready to use.
type Kernel struct {
	mu sync.Mutex
	// first is the digest of each file when it was first executed.
	first map[wire.Inode]string
	// verdicts spare a check of the same bytes.
	verdicts map[string]error
	recycled float64
	chance   func() float64 // for tests; math/rand when nil
}

// Recycle sets the chance, 0 to 1, that the kernel has dropped what it knew of
// a file when a changed one is executed.
func (k *Kernel) Recycle(chance float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recycled = chance
}

// Exec says whether the file at inode, with content of the given digest, may
// run: nil, a *KilledError, ErrTruncated or ErrNotMachO.
func (k *Kernel) Exec(inode wire.Inode, digest string, content io.ReaderAt, size int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, executed := k.first[inode]
	if executed && before != digest {
		if k.roll() >= k.recycled {
			return &KilledError{ErrReused}
		}
	}
	verdict, known := k.verdicts[digest]
	if !known {
		_, verdict = Check(content, size)
		if errors.Is(verdict, ErrUnsigned) || errors.Is(verdict, ErrBroken) {
			verdict = &KilledError{verdict}
		}
		k.remember(digest, verdict)
	}
	if verdict != nil {
		return fmt.Errorf("executing it: %w", verdict)
	}
	if k.first == nil {
		k.first = map[wire.Inode]string{}
	}
	k.first[inode] = digest
	return nil
}

func (k *Kernel) remember(digest string, verdict error) {
	if k.verdicts == nil {
		k.verdicts = map[string]error{}
	}
	k.verdicts[digest] = verdict
}

func (k *Kernel) roll() float64 {
	if k.chance != nil {
		return k.chance()
	}
	return rand.Float64()
}
