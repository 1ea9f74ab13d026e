package amfi

import (
	"bytes"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"errors"
)

// ErrNoRoom is returned for a program without a signature whose header has no
// room to point to one.
var ErrNoRoom = errors.New("no room in the header for a signature")

// Sign returns a copy of a program with an ad-hoc signature under identifier
// in place of whatever it had.
func Sign(program []byte, identifier string) ([]byte, error) {
	return sign(program, names{identifier: identifier})
}

// SignByTeam returns a copy with a signature as by a certificate of the team's.
func SignByTeam(program []byte, identifier, team string) ([]byte, error) {
	return sign(program, names{identifier, team})
}

// names are what a CodeDirectory calls a program, and whose it is.
type names struct{ identifier, team string }

// text is how they stand behind the header.
func (n names) text() string {
	if n.team == "" {
		return n.identifier + "\x00"
	}
	return n.identifier + "\x00" + n.team + "\x00"
}

// at is the offset of the team in the CodeDirectory, 0 without one.
func (n names) at() uint32 {
	if n.team == "" {
		return 0
	}
	return uint32(directoryHeaderSize + len(n.identifier) + 1)
}

func (n names) flags() uint32 {
	if n.team == "" {
		return flagAdHoc
	}
	return 0
}

func sign(program []byte, n names) ([]byte, error) {
	i, err := readImage(bytes.NewReader(program), int64(len(program)))
	if err != nil {
		return nil, err
	}
	linkedit := i.file.Segment("__LINKEDIT")
	text := i.file.Segment("__TEXT")
	if linkedit == nil || text == nil {
		return nil, ErrNotMachO
	}
	limit := int64(linkedit.Offset + linkedit.Filesz)
	if i.command != 0 {
		limit = int64(i.offset)
	}
	limit = roundUp(limit, 16)
	out := make([]byte, limit)
	copy(out, program)
	if err := i.point(out, limit, signatureSize(limit, n)); err != nil {
		return nil, err
	}
	i.stretch(out, linkedit, limit+signatureSize(limit, n))
	return append(out, superBlob(out, n, text)...), nil
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// point has the load command name where the signature will be, adding the
// command when there is none.
func (i image) point(out []byte, offset, length int64) error {
	order := i.file.ByteOrder
	at := i.command
	if at == 0 {
		at = i.commandsEnd
		if at+linkeditCommandSize > i.firstSection() {
			return ErrNoRoom
		}
		order.PutUint32(out[16:], i.file.Ncmd+1)
		order.PutUint32(out[20:], i.file.Cmdsz+linkeditCommandSize)
		order.PutUint32(out[at:], loadCodeSignature)
		order.PutUint32(out[at+4:], linkeditCommandSize)
	}
	order.PutUint32(out[at+8:], uint32(offset))
	order.PutUint32(out[at+12:], uint32(length))
	return nil
}

func (i image) firstSection() int64 {
	first := i.size
	for _, s := range i.file.Sections {
		if s.Offset != 0 {
			first = min(first, int64(s.Offset))
		}
	}
	return first
}

// stretch makes the last segment reach to the end of the signature.
func (i image) stretch(out []byte, linkedit *macho.Segment, end int64) {
	order := i.file.ByteOrder
	at := int64(machHeaderSize)
	for _, l := range i.file.Loads {
		if s, ok := l.(*macho.Segment); ok && s == linkedit {
			size := uint64(end) - linkedit.Offset
			order.PutUint64(out[at+32:], max(linkedit.Memsz, uint64(roundUp(int64(size), 16<<10))))
			order.PutUint64(out[at+48:], size)
		}
		at += int64(len(l.Raw()))
	}
}

func directorySize(limit int64, n names) int64 {
	pages := roundUp(limit, 1<<pageSizeLog2) >> pageSizeLog2
	return directoryHeaderSize + int64(len(n.text())) + (slotRequirements+pages)*sha256.Size
}

// requirements is an empty set of requirements, which codesign always adds.
func requirements() []byte {
	var b []byte
	for _, v := range []uint32{magicRequirements, 12, 0} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

const superBlobHeader = 12 + 2*8

func signatureSize(limit int64, n names) int64 {
	return roundUp(superBlobHeader+directorySize(limit, n)+int64(len(requirements())), 16)
}

// superBlob hashes the finished code and wraps the result.
func superBlob(code []byte, n names, text *macho.Segment) []byte {
	limit := int64(len(code))
	size := directorySize(limit, n)
	total := signatureSize(limit, n)
	words := []uint32{
		magicSuperBlob, uint32(superBlobHeader + size + int64(len(requirements()))), 2,
		slotCodeDirectory, superBlobHeader, slotRequirements, uint32(superBlobHeader + size),
	}
	blob := make([]byte, 0, total)
	for _, w := range words {
		blob = binary.BigEndian.AppendUint32(blob, w)
	}
	blob = append(blob, codeDirectory(code, n, text)...)
	blob = append(blob, requirements()...)
	return append(blob, make([]byte, total-int64(len(blob)))...)
}

func codeDirectory(code []byte, n names, text *macho.Segment) []byte {
	limit := int64(len(code))
	pages := roundUp(limit, 1<<pageSizeLog2) >> pageSizeLog2
	size := directorySize(limit, n)
	hashes := size - pages*sha256.Size
	d := make([]byte, 0, size)
	for _, w := range []uint32{
		magicCodeDirectory, uint32(size), directoryVersion, n.flags(), uint32(hashes), directoryHeaderSize,
		slotRequirements, uint32(pages), uint32(limit),
	} {
		d = binary.BigEndian.AppendUint32(d, w)
	}
	d = append(d, sha256.Size, hashSHA256, 0, pageSizeLog2)
	d = append(d, make([]byte, 4+4)...) // spare, scatter
	d = binary.BigEndian.AppendUint32(d, n.at())
	d = append(d, make([]byte, 4+8)...) // spare, 64-bit limit
	for _, w := range []uint64{text.Offset, text.Filesz, executableSegment} {
		d = binary.BigEndian.AppendUint64(d, w)
	}
	d = append(d, n.text()...)
	sum := sha256.Sum256(requirements())
	d = append(d, sum[:]...) // slot -2: the requirements
	d = append(d, make([]byte, sha256.Size)...)
	for at := int64(0); at < limit; at += 1 << pageSizeLog2 {
		sum := sha256.Sum256(code[at:min(at+1<<pageSizeLog2, limit)])
		d = append(d, sum[:]...)
	}
	return d
}
