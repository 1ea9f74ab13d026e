package remote

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// maxBuild bounds an agent's file, in bytes.
const maxBuild = 256 << 20

// Build is one build of the agent, compressed once for many Macs. It may be used
// concurrently.
type Build struct {
	// SHA256 of the file as it is installed, lower-case hex.
	SHA256 string
	// Size of that file in bytes.
	Size int64

	packed       io.ReaderAt
	packedSize   int64
	packedSHA256 string
}

// PackedSuffix is that of a build's file which is compressed already.
const PackedSuffix = ".gz"

// ReadBuild reads the build at path. One that is compressed already stays where it is and
// is read again for each Mac, so that path must stay as it is; another is compressed as it
// is read, and held in memory.
func ReadBuild(path string) (*Build, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the agent's build: %w", err)
	}
	if strings.HasSuffix(path, PackedSuffix) {
		return openPacked(f)
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
		packed: bytes.NewReader(packed.Bytes()), packedSize: int64(packed.Len()), packedSHA256: document.Hash(packed.Bytes()),
	}, nil
}

// openPacked keeps the file open, for as long as the process runs.
func openPacked(f *os.File) (*Build, error) {
	b, err := unpack(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpacking the agent's build at %s: %w", f.Name(), err), f.Close())
	}
	b.packed = f
	return b, nil
}

// unpack finds out what a compressed build is.
func unpack(r io.Reader) (*Build, error) {
	packed, sum := &counted{hash: sha256.New()}, sha256.New()
	z, err := gzip.NewReader(io.TeeReader(r, packed))
	if err != nil {
		return nil, err
	}
	size, err := io.Copy(sum, io.LimitReader(z, maxBuild+1)) // at its end all of r was read
	switch {
	case err != nil:
		return nil, err
	case size == 0 || size > maxBuild:
		return nil, errors.New("it is empty or too large")
	}
	return &Build{
		SHA256: hex.EncodeToString(sum.Sum(nil)), Size: size,
		packedSize: packed.size, packedSHA256: hex.EncodeToString(packed.hash.Sum(nil)),
	}, nil
}

// counted is what has passed by.
type counted struct {
	hash hash.Hash
	size int64
}

func (c *counted) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	return c.hash.Write(p)
}

// PackedSize is how many bytes travel, at most.
func (b *Build) PackedSize() int64 { return b.packedSize }

// from is what travels to a Mac that has so much of it.
func (b *Build) from(have int64) io.Reader {
	return io.NewSectionReader(b.packed, have, b.packedSize-have)
}

func (b *Build) header() string {
	return fmt.Sprintf("%s %s %d\n", b.SHA256, b.packedSHA256, b.packedSize)
}
