package macostest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// machO begins every arm64 program.
var machO = []byte{0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0x00, 0x00, 0x01}

var seal = []byte("\nsealed ")

// Build returns a program for this Mac that does what text says, with a valid
// signature.
func Build(text string) []byte { return signed(UnsignedBuild(text)) }

// UnsignedBuild returns one without a signature.
func UnsignedBuild(text string) []byte { return append(bytes.Clone(machO), text...) }

func signed(data []byte) []byte {
	body, _, _ := bytes.Cut(data, seal)
	sum := sha256.Sum256(body)
	return hex.AppendEncode(append(bytes.Clone(body), seal...), sum[:])
}

func isSigned(data []byte) bool {
	return bytes.HasPrefix(data, machO) && bytes.Equal(data, signed(data))
}

// mayRun is the kernel's verdict on a program. It remembers the signature of
// a file that it ran and holds against it whatever is written into it later.
func (m *Mac) mayRun(name string) bool {
	f, ok := m.files[m.resolve(name)]
	if !ok || !isSigned(f.data) {
		return false
	}
	sum := sha256.Sum256(f.data)
	if cached, ran := m.cached[f]; ran {
		return cached == sum
	}
	m.cached[f] = sum
	return true
}

// Overwrite puts other bytes into a file in place, as one that keeps its inode.
func (m *Mac) Overwrite(name string, data []byte) {
	m.files[m.resolve(name)].data = bytes.Clone(data)
}

type signatures struct{ m *Mac }

func (s signatures) Verify(_ context.Context, name string) error {
	data, ok := s.m.Get(name)
	if !ok {
		return missing("codesign", name)
	}
	if !isSigned(data) {
		return &macos.SignatureError{File: name, Text: "code object is not signed at all"}
	}
	return nil
}

// VerifyBundle takes any folder with a whole signature file in it. A team's names it:
// "team <ID>".
func (s signatures) VerifyBundle(ctx context.Context, dir, team string) error {
	resources := dir + "/Contents/_CodeSignature/CodeResources"
	err := s.Verify(ctx, resources)
	if errors.Is(err, fs.ErrNotExist) {
		return &macos.SignatureError{File: dir, Text: "code object is not signed at all"}
	}
	if err != nil || team == "" {
		return err
	}
	if data, _ := s.m.Get(resources); !bytes.Contains(data, []byte("team "+team)) {
		return &macos.SignatureError{File: dir, Team: team, Text: "test-requirement: code failed to satisfy specified code requirement(s)"}
	}
	return nil
}

func (s signatures) Sign(_ context.Context, name, _ string) error {
	if err := s.m.change("sign " + name); err != nil {
		return err
	}
	f, ok := s.m.files[s.m.resolve(name)]
	if !ok {
		return missing("codesign", name)
	}
	s.m.files[s.m.resolve(name)] = &file{Info: f.Info, data: signed(f.data)}
	return nil
}
