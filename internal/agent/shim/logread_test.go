package shim

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
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
