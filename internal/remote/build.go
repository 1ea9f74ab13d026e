package remote

import (
	"bytes"
	"compress/gzip"
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

// ReadBuild reads the build at path.
func ReadBuild(path string) (*Build, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the agent's build: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxBuild+1))
	if err != nil {
		return nil, fmt.Errorf("reading the agent's build: %w", err)
	}
	return NewBuild(data)
}

// NewBuild packs a build. gzip is what every Mac can unpack without our code.
func NewBuild(data []byte) (*Build, error) {
	if len(data) == 0 || len(data) > maxBuild {
		return nil, errors.New("packing the agent's build: it is empty or too large")
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(data)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("packing the agent's build: %w", err)
	}
	return &Build{
		SHA256: document.Hash(data), Size: int64(len(data)),
		packed: bytes.Clone(packed.Bytes()), packedSHA256: document.Hash(packed.Bytes()),
	}, nil
}

// PackedSize is how many bytes travel, at most.
func (b *Build) PackedSize() int64 { return int64(len(b.packed)) }

func (b *Build) header() string {
	return fmt.Sprintf("%s %s %d\n", b.SHA256, b.packedSHA256, len(b.packed))
}
