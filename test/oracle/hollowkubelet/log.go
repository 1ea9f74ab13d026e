package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// longestEntry is how much of a line one entry of a log holds, as with container runtimes.
const longestEntry = 16 << 10

// containerLog is a container's log, in the format in which a kubelet reads it.
type containerLog struct {
	mu   sync.Mutex
	file *os.File
	open sync.WaitGroup
}

func newContainerLog(path string) (*containerLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { // the kubelet's own file system is a fake
		return nil, fmt.Errorf("making the folder of a log: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a log: %w", err)
	}
	return &containerLog{file: file}, nil
}

// take returns what a process writes one of its streams to, for the caller to close.
func (l *containerLog) take(stream string) (*os.File, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("opening a stream of a log: %w", err)
	}
	l.open.Go(func() {
		defer from.Close() //nolint:errcheck // only read
		l.copy(stream, from)
	})
	return to, nil
}

// start starts a process whose output is the log.
func (l *containerLog) start(cmd *exec.Cmd) error {
	out, err := l.take("stdout")
	if err != nil {
		return err
	}
	defer out.Close() //nolint:errcheck // the process has its own
	errs, err := l.take("stderr")
	if err != nil {
		return err
	}
	defer errs.Close() //nolint:errcheck // the process has its own
	cmd.Stdout, cmd.Stderr = out, errs
	return cmd.Start()
}

func (l *containerLog) copy(stream string, from io.Reader) {
	lines := bufio.NewReaderSize(from, longestEntry)
	for {
		text, err := lines.ReadSlice('\n')
		partial := errors.Is(err, bufio.ErrBufferFull)
		if len(text) > 0 {
			l.write(stream, partial, bytes.TrimSuffix(text, []byte("\n")))
		}
		if err != nil && !partial {
			return
		}
	}
}

// write adds one entry at once, as its readers want it.
func (l *containerLog) write(stream string, partial bool, text []byte) {
	tag := 'F'
	if partial {
		tag = 'P'
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.file, "%s %s %c %s\n", time.Now().Format(time.RFC3339Nano), stream, tag, text)
}

// end waits for what a process wrote before it ended, but not for processes that have outlived it.
func (l *containerLog) end() {
	all := make(chan struct{})
	go func() {
		l.open.Wait()
		_ = l.file.Close()
		close(all)
	}()
	select {
	case <-all:
	case <-time.After(100 * time.Millisecond):
	}
}
