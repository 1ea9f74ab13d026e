package world

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// scripted is a manager whose processes from the second to the last that fails end at once.
type scripted struct {
	*manager
	t   *testing.T
	dir string
}

func newScripted(t *testing.T, lastFails int) *scripted {
	t.Helper()
	dir := t.TempDir()
	ready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(filepath.Join(dir, "ready")); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(ready.Close)
	script := `cd "$1"; echo x >>starts; n=$(wc -l <starts); [ $n -ge 2 ] && [ $n -le $2 ] && exit 3; touch ready; exec sleep 600`
	m := &manager{
		name: "manager-1", binary: "/bin/sh", args: []string{"-c", script, "sh", dir, strconv.Itoa(lastFails)}, log: filepath.Join(dir, "log"),
		health: ready.URL, restarts: restarts{time.Millisecond, 5 * time.Millisecond},
	}
	s := &scripted{manager: m, t: t, dir: dir}
	t.Cleanup(func() {
		m.letGo()
		if err := m.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := m.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.keep(slog.New(slog.NewTextHandler(io.Discard, nil)))
	return s
}

// dies ends the process as a crash does.
func (s *scripted) dies() {
	s.t.Helper()
	process := s.current()
	if err := os.Remove(filepath.Join(s.dir, "ready")); err != nil {
		s.t.Fatal(err)
	}
	if err := syscall.Kill(process.PID(), syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	<-process.Ended()
}

func (s *scripted) starts() int {
	data, _ := os.ReadFile(filepath.Join(s.dir, "starts"))
	return strings.Count(string(data), "x")
}

// ended says that the process that is known has: the next may be ready before it is known.
func (s *scripted) ended() bool {
	select {
	case <-s.current().Ended():
		return true
	default:
		return false
	}
}

func (s *scripted) awaitReady(starts int) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	for s.starts() < starts || !s.ready(s.t.Context()) || s.ended() {
		select {
		case <-deadline:
			s.t.Fatalf("started %d times, want %d and ready", s.starts(), starts)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func TestAManagerIsStartedAgainHoweverOftenItFails(t *testing.T) {
	s := newScripted(t, 4)
	s.dies()
	s.awaitReady(5)
	s.dies()
	s.awaitReady(6)
}

func TestAManagerThatIsLetGoStaysDead(t *testing.T) {
	s := newScripted(t, math.MaxInt32) // however many starts there are before it is let go
	s.dies()
	for deadline := time.After(time.Minute); s.starts() < 3; {
		select {
		case <-deadline:
			t.Fatal("no second try")
		case <-time.After(time.Millisecond):
		}
	}
	w := &World{managers: []*manager{s.manager}}
	if err := w.KillManager(0); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.kept:
	default:
		t.Error("it is kept although it was let go")
	}
	select {
	case <-s.current().Ended():
	default:
		t.Error("it runs although it was killed")
	}
	if err := w.StartManager(t.Context(), 0); err == nil {
		t.Error("a manager that fails was started")
	}
}

func TestPausesBetweenStartsDouble(t *testing.T) {
	if first, longest := (restarts{}).pauses(); first != time.Second || longest != 30*time.Second {
		t.Errorf("pauses of %s to %s", first, longest)
	}
}
