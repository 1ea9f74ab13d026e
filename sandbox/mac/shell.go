package mac

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// errNoShell is returned where there is no POSIX shell to lend to a Mac.
var errNoShell = errors.New("simulated Mac: no dash, bash or sh on this machine")

// findShell picks the machine's most POSIX-minded shell and lists the files it
// needs, so that they can be lent to every Mac at the same paths.
func findShell() (wire.Shell, error) {
	for _, candidate := range []string{"/bin/dash", "/usr/bin/dash", "/bin/bash", "/usr/bin/bash", "/bin/sh"} {
		path, err := filepath.EvalSymlinks(candidate)
		if err != nil {
			continue
		}
		files, err := dependencies(path)
		if err != nil {
			return wire.Shell{}, fmt.Errorf("simulated Mac: shell %s: %w", path, err)
		}
		return wire.Shell{Path: path, Files: files}, nil
	}
	return wire.Shell{}, errNoShell
}

// dependencies are the ELF interpreter of a program and the libraries it and
// they name, at the paths the interpreter will look for them.
func dependencies(program string) ([]string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	defer f.Close()
	interpreter, err := interpreterOf(f)
	if err != nil || interpreter == "" {
		return nil, err
	}
	files := []string{interpreter}
	seen := map[string]bool{}
	queue := []*elf.File{f}
	for len(queue) > 0 {
		f := queue[0]
		queue = queue[1:]
		names, err := f.ImportedLibraries()
		if err != nil {
			return nil, fmt.Errorf("reading needed libraries: %w", err)
		}
		for _, name := range names {
			if seen[name] || name == filepath.Base(interpreter) {
				continue
			}
			seen[name] = true
			path, lib, err := openLibrary(name, searchDirs(f, interpreter))
			if err != nil {
				return nil, err
			}
			defer lib.Close()
			files, queue = append(files, path), append(queue, lib)
		}
	}
	return files, nil
}

func interpreterOf(f *elf.File) (string, error) {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		data := make([]byte, p.Filesz)
		if _, err := p.ReadAt(data, 0); err != nil {
			return "", fmt.Errorf("reading the interpreter's name: %w", err)
		}
		return strings.TrimRight(string(data), "\x00"), nil
	}
	return "", nil
}

// searchDirs are the run paths of a file, then where loaders look by default.
func searchDirs(f *elf.File, interpreter string) []string {
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		if paths, err := f.DynString(tag); err == nil {
			for _, p := range paths {
				dirs = append(dirs, filepath.SplitList(p)...)
			}
		}
	}
	for _, pattern := range []string{"/lib/*-linux-*", "/usr/lib/*-linux-*"} {
		if found, err := filepath.Glob(pattern); err == nil {
			dirs = append(dirs, found...)
		}
	}
	return append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/lib", filepath.Dir(interpreter))
}

func openLibrary(name string, dirs []string) (string, *elf.File, error) {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		if f, err := elf.Open(path); err == nil {
			return path, f, nil
		}
	}
	return "", nil, fmt.Errorf("library %s not found", name)
}
