package process

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// machO is the smallest header debug/macho reads.
func machO(cpu, kind uint32) []byte {
	var b []byte
	for _, v := range []uint32{0xfeedfacf, cpu, 0, kind, 0, 0, 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

const (
	cpuARM64, cpuAMD64       = 0x0100000c, 0x01000007
	typeExecutable, typeDyli = 2, 6
)

func TestResolve(t *testing.T) {
	known := machO(cpuARM64, typeExecutable)
	twinDir := t.TempDir()
	twin := filepath.Join(twinDir, fmt.Sprintf("%x", sha256.Sum256(known)))
	if err := os.WriteFile(twin, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		data []byte
		mode os.FileMode
		want string // "self", "twin", or nothing for an error
		err  error
	}{
		{"script", []byte("#!/bin/sh\n"), 0o755, "self", nil},
		{"empty", nil, 0o755, "self", nil},
		{"not executable", []byte("#!/bin/sh\n"), 0o644, "", syscall.EACCES},
		{"known program", known, 0o755, "twin", nil},
		{"unknown program", append(machO(cpuARM64, typeExecutable), 0), 0o755, "", ErrBadCPU},
		{"Intel program", machO(cpuAMD64, typeExecutable), 0o755, "", ErrBadCPU},
		{"library", machO(cpuARM64, typeDyli), 0o755, "", ErrBadCPU},
		{"damaged header", known[:16], 0o755, "", syscall.ENOEXEC},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			if err := os.WriteFile(path, tt.data, tt.mode); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"self": path, "twin": twin}[tt.want]
			got, err := newTwins(twinDir, nil).resolve(path)
			if got != want || !errors.Is(err, tt.err) {
				t.Errorf("resolve = %q, %v; want %q, %v", got, err, want, tt.err)
			}
		})
	}
}

func TestResolveSeesAChangedFile(t *testing.T) {
	tw := newTwins(t.TempDir(), nil)
	path := filepath.Join(t.TempDir(), "program")
	for i := range 2 {
		data := append(machO(cpuARM64, typeExecutable), byte(i))
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
		twin := filepath.Join(tw.dir, fmt.Sprintf("%x", sha256.Sum256(data)))
		if err := os.WriteFile(twin, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := tw.resolve(path); got != twin || err != nil {
			t.Errorf("content %d: %q, %v", i, got, err)
		}
	}
}
