package remote

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// maxBuild bounds an agent's file, in bytes.
const maxBuild = 256 << 20

// Build is one build of the agent, compressed once and held for many Macs. It
// may be used concurrently.
type Build struct {
	// SHA256 of the file as it is installed, lower-case hex.
	SHA256 string
	// Size of that file in bytes.
	Size int64

	packed       []byte
	packedSHA256 string
}

// ReadBuild packs the build at path as it reads it: the whole file is never in memory.
func ReadBuild(path string) (*Build, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the agent's build: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading the agent's build: %w", err)
	}
	return pack(f, info.Size())
}

// NewBuild packs a build that is in memory.
func NewBuild(data []byte) (*Build, error) {
	return pack(bytes.NewReader(data), int64(len(data)))
}

// pack uses gzip, which every Mac can unpack without our code. Of a Go program a third is left:
// with room for that the buffer need not grow.
func pack(r io.Reader, size int64) (*Build, error) {
	var packed bytes.Buffer
	packed.Grow(int(min(size, maxBuild) * 2 / 5))
	z, sum := gzip.NewWriter(&packed), sha256.New()
	read, err := io.Copy(io.MultiWriter(z, sum), io.LimitReader(r, maxBuild+1))
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("packing the agent's build: %w", err)
	}
	if read == 0 || read > maxBuild {
		return nil, errors.New("packing the agent's build: it is empty or too large")
	}
	return &Build{
		SHA256: hex.EncodeToString(sum.Sum(nil)), Size: read,
		packed: packed.Bytes(), packedSHA256: document.Hash(packed.Bytes()),
	}, nil
}

// PackedSize is how many bytes travel, at most.
func (b *Build) PackedSize() int64 { return int64(len(b.packed)) }

func (b *Build) header() string {
	return fmt.Sprintf("%s %s %d\n", b.SHA256, b.packedSHA256, len(b.packed))
}
