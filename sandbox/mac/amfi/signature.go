// Package amfi models how macOS trusts the code of Mach-O programs: it reads
// and checks their signatures page by page, makes ad-hoc ones, and remembers,
// as the kernel does, what a file held when it was first executed. Entitlements,
// certificates and what a killed process looks like are left to others.
package amfi

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// What can be wrong with a program's signature.
var (
	ErrNotMachO  = errors.New("not an arm64 Mach-O executable")
	ErrTruncated = errors.New("truncated Mach-O file")
	ErrUnsigned  = errors.New("code object is not signed at all")
	ErrBroken    = errors.New("invalid signature (code or signature have been modified)")
)

// Constants of the format, as in XNU's cs_blobs.h.
const (
	loadCodeSignature = 0x1d

	magicSuperBlob     = 0xfade0cc0
	magicCodeDirectory = 0xfade0c02
	magicRequirements  = 0xfade0c01

	slotCodeDirectory = 0
	slotRequirements  = 2

	hashSHA256   = 2
	pageSizeLog2 = 12 // 4 KiB

	flagAdHoc        = 0x2
	flagLinkerSigned = 0x20000

	directoryVersion    = 0x20400
	teamVersion         = 0x20200 // the first whose header has a team
	teamOffset          = 48      // where the header says where it is
	directoryHeaderSize = 88      // of version 0x20400
	executableSegment   = 1       // execSegFlags: a main binary
	linkeditCommandSize = 16
	machHeaderSize      = 32
)

// Signature is what the CodeDirectory of a program says.
type Signature struct {
	Identifier string
	// Team is the developer program's that the CodeDirectory names; empty: none. There
	// are no certificates here: a signature that is not ad hoc counts as its team's.
	Team    string
	Version uint32
	Flags   uint32
	// Size is that of the CodeDirectory in bytes, Slots the number of pages
	// hashed and Special that of other hashes.
	Size, Slots, Special int
	// CDHash is the first 20 bytes of the CodeDirectory's SHA-256.
	CDHash [20]byte
	// Trailing says that the file goes on after its signature, which a strict
	// check refuses and the kernel does not mind.
	Trailing bool
}

// AdHoc reports whether no certificate stands behind the signature.
func (s Signature) AdHoc() bool { return s.Flags&flagAdHoc != 0 }

// LinkerSigned reports whether the linker made the signature.
func (s Signature) LinkerSigned() bool { return s.Flags&flagLinkerSigned != 0 }

// directory is a parsed CodeDirectory header.
type directory struct {
	raw                   []byte
	version, flags        uint32
	hashes, ident         uint32
	special, slots, limit uint32
	pageLog2              uint8
}

// image is a Mach-O file with the places a signature is about.
type image struct {
	file *macho.File
	size int64
	// command is the offset of LC_CODE_SIGNATURE in the file, 0 without one;
	// offset and length are where it points.
	command        int64
	offset, length uint32
	// commandsEnd is the offset behind the last load command.
	commandsEnd int64
}

func readImage(r io.ReaderAt, size int64) (image, error) {
	if !isExecutable(r) {
		return image{}, ErrNotMachO
	}
	f, err := macho.NewFile(r)
	if err != nil {
		return image{}, ErrTruncated
	}
	i := image{file: f, size: size, commandsEnd: machHeaderSize}
	for _, l := range f.Loads {
		raw := l.Raw()
		switch s, isSegment := l.(*macho.Segment); {
		case isSegment && (s.Offset > uint64(size) || s.Filesz > uint64(size)-s.Offset):
			return image{}, ErrTruncated
		case len(raw) == linkeditCommandSize && f.ByteOrder.Uint32(raw) == loadCodeSignature:
			i.command = i.commandsEnd
			i.offset, i.length = f.ByteOrder.Uint32(raw[8:]), f.ByteOrder.Uint32(raw[12:])
		}
		i.commandsEnd += int64(len(raw))
	}
	return i, nil
}

// isExecutable looks at the fixed part of the header: magic, CPU and type.
func isExecutable(r io.ReaderAt) bool {
	var header [machHeaderSize]byte
	if _, err := r.ReadAt(header[:], 0); err != nil {
		return false
	}
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(header[i:]) }
	return word(0) == macho.Magic64 && word(4) == uint32(macho.CpuArm64) && word(12) == uint32(macho.TypeExec)
}

// Check reads a program's signature and compares every page with it.
func Check(r io.ReaderAt, size int64) (Signature, error) {
	i, err := readImage(r, size)
	if err != nil {
		return Signature{}, err
	}
	if i.command == 0 {
		return Signature{}, ErrUnsigned
	}
	if int64(i.offset)+int64(i.length) > size {
		return Signature{}, ErrTruncated
	}
	blob := make([]byte, i.length)
	if _, err := r.ReadAt(blob, int64(i.offset)); err != nil && !errors.Is(err, io.EOF) {
		return Signature{}, fmt.Errorf("reading the signature: %w", err)
	}
	d, err := findDirectory(blob)
	if err != nil {
		return Signature{}, err
	}
	if d.limit != i.offset {
		return Signature{}, ErrBroken
	}
	s, err := d.signature()
	if err != nil {
		return Signature{}, err
	}
	s.Trailing = size > int64(i.offset)+int64(i.length)
	return s, d.checkPages(r)
}

// findDirectory looks for the CodeDirectory with SHA-256 in a super blob.
func findDirectory(blob []byte) (directory, error) {
	if len(blob) < 12 || binary.BigEndian.Uint32(blob) != magicSuperBlob {
		return directory{}, ErrBroken
	}
	count := binary.BigEndian.Uint32(blob[8:])
	for n := range count {
		entry := 12 + int64(n)*8
		if entry+8 > int64(len(blob)) {
			break
		}
		at := int64(binary.BigEndian.Uint32(blob[entry+4:]))
		if at+44 > int64(len(blob)) || binary.BigEndian.Uint32(blob[at:]) != magicCodeDirectory {
			continue
		}
		raw := blob[at:]
		size := binary.BigEndian.Uint32(raw[4:])
		if int64(size) > int64(len(raw)) || size < 44 || raw[37] != hashSHA256 || raw[36] != sha256.Size {
			continue
		}
		word := func(i int) uint32 { return binary.BigEndian.Uint32(raw[i:]) }
		return directory{
			raw: raw[:size], version: word(8), flags: word(12), hashes: word(16), ident: word(20),
			special: word(24), slots: word(28), limit: word(32), pageLog2: raw[39],
		}, nil
	}
	return directory{}, ErrBroken
}

func (d directory) signature() (Signature, error) {
	if uint64(d.hashes)+uint64(d.slots)*sha256.Size > uint64(len(d.raw)) || int(d.ident) >= len(d.raw) {
		return Signature{}, ErrBroken
	}
	name, _, ended := bytes.Cut(d.raw[d.ident:], []byte{0})
	if !ended {
		return Signature{}, ErrBroken
	}
	s := Signature{
		Identifier: string(name), Version: d.version, Flags: d.flags,
		Size: len(d.raw), Slots: int(d.slots), Special: int(d.special),
	}
	if d.version >= teamVersion && len(d.raw) >= teamOffset+4 {
		at := int64(binary.BigEndian.Uint32(d.raw[teamOffset:]))
		if at >= int64(len(d.raw)) {
			return Signature{}, ErrBroken
		}
		if at > 0 {
			team, _, _ := bytes.Cut(d.raw[at:], []byte{0})
			s.Team = string(team)
		}
	}
	sum := sha256.Sum256(d.raw)
	copy(s.CDHash[:], sum[:])
	return s, nil
}

func (d directory) checkPages(r io.ReaderAt) error {
	if d.pageLog2 < pageSizeLog2 || d.pageLog2 > 16 {
		return ErrBroken
	}
	size := uint32(1) << d.pageLog2
	if want := (uint64(d.limit) + uint64(size) - 1) / uint64(size); want != uint64(d.slots) {
		return ErrBroken
	}
	page := make([]byte, size)
	for n := range d.slots {
		start := int64(n) << d.pageLog2
		length := min(int64(size), int64(d.limit)-start)
		if _, err := r.ReadAt(page[:length], start); err != nil {
			return ErrTruncated
		}
		sum := sha256.Sum256(page[:length])
		if !bytes.Equal(sum[:], d.raw[d.hashes+n*sha256.Size:][:sha256.Size]) {
			return ErrBroken
		}
	}
	return nil
}
