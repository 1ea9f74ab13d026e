package shim

import (
	"bytes"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/server/logs"
)

// What a log's writer writes is what its readers get, line for line, also while it
// rotates all the time.
func TestLogsAreReadAsTheyWereWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.log")
	log := newLog(path, Logs{MaxBytes: 4 << 10, MaxFiles: 500})
	stdout := log.stream("stdout")
	var ended atomic.Bool
	var got bytes.Buffer
	done := make(chan error, 1)
	go func() {
		done <- logs.Read(t.Context(), path, logs.Options{Ended: ended.Load}, &got, &got)
	}()
	var want strings.Builder
	for i := range 5000 {
		text := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", i%300))
		if i%1000 == 999 {
			text = strings.Repeat("long ", 8000) + text
		}
		want.WriteString(text)
		if _, err := stdout.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	stdout.end()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	ended.Store(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got.String() != want.String() {
		t.Errorf("read %d bytes, %d were written", got.Len(), want.Len())
	}
}

// Where the disk is full, a log is read to its last whole line, and whoever follows it gets
// what comes once there is room again, and how much is missing. The limit of a file's size
// fills the disk for a process.
func TestALogIsReadThoughTheDiskIsFull(t *testing.T) {
	if !alone(t) {
		return
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	path := filepath.Join(t.TempDir(), "main.log")
	log := newLog(path, Logs{})
	stdout := log.stream("stdout")
	say := func(text string) {
		if _, err := stdout.Write([]byte(text)); err != nil {
			t.Fatalf("the command is held up: %v", err)
		}
	}
	say("fits\n")
	var ended atomic.Bool
	var got, errs bytes.Buffer
	done := make(chan error, 1)
	go func() { done <- logs.Read(t.Context(), path, logs.Options{Ended: ended.Load}, &got, &errs) }()
	unlimited := limitFiles(t, int64(len(read(t, path)))+10)
	for range 10 {
		say("does not fit\n")
	}
	var now bytes.Buffer
	err := logs.Read(t.Context(), path, logs.Options{}, &now, &now)
	unlimited()
	if err != nil || now.String() != "fits\n" {
		t.Errorf("while the disk is full: %q, %v", now.String(), err)
	}
	say("again\n")
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	ended.Store(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	const notice = "macfleet: 10 lines of output are missing here, they could not be written: file too large\n"
	if got.String() != "fits\nagain\n" || errs.String() != notice {
		t.Errorf("followed: %q, and %q", got.String(), errs.String())
	}
}
