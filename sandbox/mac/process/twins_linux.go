package process

import (
	"crypto/sha256"
	"debug/macho"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// twins maps darwin programs to Linux programs built from the same sources.
type twins struct {
	dir   string
	trust Trust
	mu    sync.Mutex
	// hashes spares hashing a file again that has not changed.
	hashes map[fileID]string
}

// Trust decides whether the darwin programs of a Mac may run.
type Trust interface {
	// Exec is asked before each execution. An *amfi.KilledError has a process
	// started that dies at once; any other error means that none is started.
	Exec(program *os.File, size int64, sha256 string) error
	// Origin is the SHA-256 under which a program's twin is registered.
	Origin(sha256 string) string
}

type fileID struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64
}

// settled is the age below which a file's times do not tell two changes apart:
// kernels stamp by the tick.
const settled = time.Second

func newTwins(dir string, trust Trust) *twins {
	return &twins{dir: dir, trust: trust, hashes: map[fileID]string{}}
}

// resolve returns what to hand to execve(2) for path: the path itself, or the
// twin when the file is a darwin/arm64 executable.
func (t *twins) resolve(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("reading its mode: %w", err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return "", syscall.EACCES
	}
	darwin, err := isDarwin(f)
	switch {
	case err != nil:
		return "", err
	case !darwin:
		return path, nil
	}
	sum, err := t.hash(f, info)
	if err != nil {
		return "", err
	}
	if t.trust != nil {
		if err := t.trust.Exec(f, info.Size(), sum); err != nil {
			return "", err
		}
		sum = t.trust.Origin(sum)
	}
	twin := filepath.Join(t.dir, sum)
	if _, err := os.Stat(twin); err != nil {
		return "", ErrBadCPU
	}
	return twin, nil
}

// isDarwin looks at the magic number first and then at the whole header: a
// Mach-O file that is no arm64 executable cannot run on this Mac either.
func isDarwin(f io.ReaderAt) (bool, error) {
	var magic [4]byte
	if n, err := f.ReadAt(magic[:], 0); n < len(magic) {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, fmt.Errorf("reading its header: %w", err)
	}
	switch string(magic[:]) {
	case "\xcf\xfa\xed\xfe", "\xce\xfa\xed\xfe", "\xfe\xed\xfa\xcf", "\xfe\xed\xfa\xce":
	default:
		return false, nil
	}
	m, err := macho.NewFile(f)
	if err != nil {
		return true, syscall.ENOEXEC
	}
	if m.Cpu != macho.CpuArm64 || m.Type != macho.TypeExec {
		return true, ErrBadCPU
	}
	return true, nil
}

func (t *twins) hash(f *os.File, info os.FileInfo) (string, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errors.New("no inode number")
	}
	id := fileID{st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
	t.mu.Lock()
	sum, ok := t.hashes[id]
	t.mu.Unlock()
	if ok {
		return sum, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hashing it: %w", err)
	}
	sum = hex.EncodeToString(h.Sum(nil))
	if time.Since(time.Unix(0, id.ctime)) > settled {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.hashes[id] = sum
	}
	return sum, nil
}
