package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// containerdShim is containerd's process that outlives it, one a Pod.
const containerdShim = "containerd-shim-runc-v2"

// errNoShim says that this machine has none.
var errNoShim = errors.New(containerdShim + " is not installed: apt-get install containerd")

// measureContainerdShim starts one as containerd does, and is its resident memory in bytes. It has no container
// yet, which would cost it more.
func measureContainerdShim(ctx context.Context) (rss int64, err error) {
	program, err := exec.LookPath(containerdShim)
	if err != nil {
		return 0, errNoShim
	}
	bundle, err := os.MkdirTemp("", "bench-shim")
	if err != nil {
		return 0, fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bundle)) }()
	if err := prepareBundle(bundle); err != nil {
		return 0, fmt.Errorf("making a bundle: %w", err)
	}
	id := filepath.Base(bundle)
	cmd := exec.CommandContext(ctx, program, "-namespace", "bench", "-address", filepath.Join(bundle, "none"), "-publish-binary", "/bin/true", "-id", id, "start")
	cmd.Dir, cmd.Env = bundle, append(os.Environ(), "TTRPC_ADDRESS="+filepath.Join(bundle, "none"))
	address, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("starting %s: %w", containerdShim, err)
	}
	defer os.Remove(strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://"))
	var pid int
	if err := await(ctx, containerdShim+" runs", func() bool { pid = processWith(id); return pid != 0 }); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL)) }()
	sleep(ctx, time.Second)
	u, err := stage.UsageOf(pid)
	return u.RSS, err
}

// prepareBundle makes what a shim finds where it is started: a container's configuration, and a
// pipe for its log that somebody reads.
func prepareBundle(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"ociVersion":"1.0.0"}`), 0o600); err != nil {
		return err
	}
	log := filepath.Join(dir, "log")
	if err := syscall.Mkfifo(log, 0o600); err != nil {
		return err
	}
	pipe, err := os.OpenFile(log, os.O_RDWR, 0) // which blocks nobody
	if err != nil {
		return err
	}
	go func() { _, _ = io.Copy(io.Discard, pipe) }()
	return nil
}

// processWith is the process that has a word among its arguments, or 0.
func processWith(word string) int {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(line, []byte("\x00"+word+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			return pid
		}
	}
	return 0
}
