package amfi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// program is a small darwin/arm64 program as the Go linker signs it.
func program(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	source, out := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(1) }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", out, source)
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func check(data []byte) (Signature, error) { return Check(bytes.NewReader(data), int64(len(data))) }

func changed(data []byte, change func([]byte) []byte) []byte { return change(bytes.Clone(data)) }

// unsigned takes the signature away, as a linker that makes none would.
func unsigned(t *testing.T, data []byte) []byte {
	t.Helper()
	i, err := readImage(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	out := bytes.Clone(data[:i.offset])
	i.stretch(out, i.file.Segment("__LINKEDIT"), int64(i.offset))
	order := i.file.ByteOrder
	order.PutUint32(out[16:], i.file.Ncmd-1)
	order.PutUint32(out[20:], i.file.Cmdsz-linkeditCommandSize)
	clear(out[i.command : i.command+linkeditCommandSize])
	return out
}

func TestCheck(t *testing.T) {
	good := program(t)
	i, err := readImage(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	flip := func(at int) []byte {
		return changed(good, func(b []byte) []byte { b[at] ^= 1; return b })
	}
	tests := []struct {
		name string
		data []byte
		want error
	}{
		{"as linked", good, nil},
		{"first page", flip(4000), ErrBroken},
		{"last page", flip(int(i.offset) - 1), ErrBroken},
		{"magic of the signature", flip(int(i.offset)), ErrBroken},
		{"half of it", good[:len(good)/2], ErrTruncated},
		{"a byte short", good[:len(good)-1], ErrTruncated},
		{"a byte more", append(bytes.Clone(good), 0), nil},
		{"no signature", unsigned(t, good), ErrUnsigned},
		{"empty", nil, ErrNotMachO},
		{"a script", []byte("#!/bin/sh\n"), ErrNotMachO},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := check(tt.data)
			if !errors.Is(err, tt.want) {
				t.Fatalf("Check: %v, want %v", err, tt.want)
			}
			if err == nil && (s.Identifier != "a.out" || !s.AdHoc() || !s.LinkerSigned() || s.Trailing != (len(tt.data) > len(good))) {
				t.Errorf("signature %+v", s)
			}
		})
	}
}

func TestSign(t *testing.T) {
	good := program(t)
	for name, data := range map[string][]byte{
		"signed": good, "unsigned": unsigned(t, good),
		"broken": changed(good, func(b []byte) []byte { b[4000] ^= 1; return b }),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Sign(data, "dev.macfleet.tart-kubelet")
			if err != nil {
				t.Fatal(err)
			}
			s, err := check(out)
			if err != nil || s.Identifier != "dev.macfleet.tart-kubelet" || !s.AdHoc() || s.LinkerSigned() || s.Trailing {
				t.Errorf("after signing: %+v, %v", s, err)
			}
			if i, err := readImage(bytes.NewReader(out), int64(len(out))); err != nil {
				t.Error(err)
			} else if l := i.file.Segment("__LINKEDIT"); l.Offset+l.Filesz != uint64(len(out)) || l.Memsz < l.Filesz {
				t.Errorf("the last segment, %d bytes at %d, does not hold the signature that ends at %d", l.Filesz, l.Offset, len(out))
			}
			again, err := Sign(out, "dev.macfleet.tart-kubelet")
			if err != nil || !bytes.Equal(again, out) {
				t.Errorf("signing again changed the program: %v", err)
			}
		})
	}
	team, err := SignByTeam(good, "dev.example.app", "AAAAAAAAAA")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := check(team); err != nil || s.Identifier != "dev.example.app" || s.Team != "AAAAAAAAAA" || s.AdHoc() {
		t.Errorf("signed by a team: %+v, %v", s, err)
	}
	if _, err := Sign([]byte("#!/bin/sh\n"), "x"); !errors.Is(err, ErrNotMachO) {
		t.Errorf("signing a script: %v", err)
	}
}

func TestF08_AFileChangedInPlaceIsKilled(t *testing.T) {
	first := program(t)
	second, err := Sign(first, "second")
	if err != nil {
		t.Fatal(err)
	}
	bare := unsigned(t, first)
	here, there := wire.Inode{Ino: 1}, wire.Inode{Ino: 2}
	var k Kernel
	k.chance = func() float64 { return 0.5 }
	run := func(inode wire.Inode, data []byte) error {
		sum := sha256.Sum256(data)
		return k.Exec(inode, hex.EncodeToString(sum[:]), bytes.NewReader(data), int64(len(data)))
	}
	steps := []struct {
		name     string
		inode    wire.Inode
		data     []byte
		recycled float64
		want     error
	}{
		{"first execution", here, first, 0, nil},
		{"the same again", here, first, 0, nil},
		{"other content in place", here, second, 0, ErrReused},
		{"the old content again", here, first, 0, nil},
		{"other content in a new file", there, second, 0, nil},
		{"the kernel remembers", here, second, 0.5, ErrReused},
		{"the kernel has forgotten", here, second, 0.6, nil},
		{"without a signature", wire.Inode{Ino: 3}, bare, 0, ErrUnsigned},
	}
	for _, s := range steps {
		k.Recycle(s.recycled)
		err := run(s.inode, s.data)
		var killed *KilledError
		if !errors.Is(err, s.want) || (s.want != nil) != errors.As(err, &killed) {
			t.Errorf("%s: %v, want %v", s.name, err, s.want)
		}
	}
}
