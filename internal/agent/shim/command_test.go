package shim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/atomicfile"
)

func TestEndsOfCommands(t *testing.T) {
	for _, c := range []struct {
		argv    string
		outcome Outcome
		code    int
		message string
	}{
		{"succeed", Exited, 0, ""},
		{"fail", Exited, 3, ""},
		{"daemon", Exited, 5, heldMessage},
		{"nothing", NotExecuted, 0, `starting "nothing": ` + vm.ErrNotExecuted.Error()},
		{"break", Lost, 0, vm.ErrLost.Error() + "; EOF"},
	} {
		a := serveAttempt(t, newFakeGuest())
		before := time.Now()
		mustRun(t, a.dir, guestRun("main", c.argv))
		end := mustEnd(t, a.dir, "main")
		if end == nil || end.ID != "main" || end.Outcome != c.outcome || end.Code != c.code || end.Message != c.message {
			t.Errorf("%s: %+v", c.argv, end)
			continue
		}
		if end.Begun.Before(before) || end.Ended.Before(end.Begun) {
			t.Errorf("%s: from %s to %s", c.argv, end.Begun, end.Ended)
		}
		begun, recorded, err := ReadCommand(a.dir, "main")
		if diff := cmp.Diff(end, recorded); !begun || err != nil || diff != "" {
			t.Errorf("%s: begun %v, err %v, record %s", c.argv, begun, err, diff)
		}
	}
}

func TestOutputIsLogged(t *testing.T) {
	a := serveAttempt(t, newFakeGuest())
	r := guestRun("main", "print")
	r.Log = "main.log"
	mustRun(t, a.dir, r)
	mustEnd(t, a.dir, "main")
	want := regexp.MustCompile(`^\S+Z stdout F out\n\S+Z stderr F err\n\S+Z stdout P half\n$`)
	if got := read(t, filepath.Join(a.dir, "main.log")); !want.MatchString(got) {
		t.Errorf("log %q", got)
	}
}

// What is said to run has its process: on a busy host the guest may take a while to start
// what it was sent.
func TestACommandIsSaidToRunOnceItDoes(t *testing.T) {
	g := newFakeGuest()
	g.starts = make(chan struct{})
	a := serveAttempt(t, g)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	said := make(chan error, 1)
	go func() { said <- Run(ctx, a.dir, guestRun("main", "hang")) }()
	awaitBegun(t, a, "main") // it may run from now on
	select {
	case err := <-said:
		t.Fatalf("a command that was sent, and has no process: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	giveUp()
	if err := <-said; !errors.Is(err, context.Canceled) {
		t.Errorf("a command that was sent, and has no process: %v", err)
	}
	close(g.starts)
	mustRun(t, a.dir, guestRun("main", "hang"))
	receive(t, "the command runs", g.running)
	g.release <- 0
	mustEnd(t, a.dir, "main")
}

func TestAnIDRunsOnce(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	r := guestRun("main", "hang")
	mustRun(t, a.dir, r)
	receive(t, "the command runs", g.running)
	mustRun(t, a.dir, r)
	if begun, end, err := ReadCommand(a.dir, "main"); !begun || end != nil || err != nil {
		t.Errorf("begun %v, end %+v, err %v", begun, end, err)
	}
	g.release <- 7
	if end := mustEnd(t, a.dir, "main"); end.Code != 7 {
		t.Errorf("end %+v", end)
	}
	mustRun(t, a.dir, r)
	if n := len(g.commands()); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

func TestGuestAgentIsWaitedFor(t *testing.T) {
	g := newFakeGuest()
	g.setDown(true)
	a := serveAttempt(t, g)
	began := make(chan error, 2)
	// Two callers: an agent, and the one that follows it.
	for range 2 {
		go func() { began <- Run(bounded(t), a.dir, guestRun("main", "succeed")) }()
	}
	awaitCommand(t, a, "main")
	if begun, end, err := ReadCommand(a.dir, "main"); begun || end != nil || err != nil {
		t.Errorf("begun %v, end %+v, err %v", begun, end, err)
	}
	g.setDown(false)
	for range 2 {
		if err := receive(t, "the command begins", began); err != nil {
			t.Error(err)
		}
	}
	if end := mustEnd(t, a.dir, "main"); end.Outcome != Exited || len(g.commands()) != 1 {
		t.Errorf("end %+v, ran %d times", end, len(g.commands()))
	}
}

// awaitCommand waits until the shim has taken a command.
func awaitCommand(t *testing.T, a attempt, id string) {
	t.Helper()
	eventually(t, "command "+id+" is taken", func() bool { return a.commands.find(id) != nil })
}

// awaitBegun waits for the record on the disk, which the next shim reads.
func awaitBegun(t *testing.T, a attempt, id string) {
	t.Helper()
	eventually(t, "command "+id+" is recorded as begun", func() bool {
		begun, _, err := ReadCommand(a.dir, id)
		return begun && err == nil
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	late := time.After(deadline)
	for !holds() {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatalf("never: %s", what)
		}
	}
}

func TestUnreachableMayBeGivenAgain(t *testing.T) {
	g := newFakeGuest()
	g.setDown(true)
	a := serveAttempt(t, g)
	r := guestRun("setup", "succeed")
	r.Timeout = 30 * time.Millisecond
	mustRun(t, a.dir, r)
	begun, end, err := ReadCommand(a.dir, "setup")
	if begun || end == nil || end.Outcome != Unreachable || !end.Begun.IsZero() || err != nil {
		t.Fatalf("begun %v, end %+v, err %v", begun, end, err)
	}
	if want := "waiting for the guest agent, 30ms: asking a fake: no guest agent answers"; end.Message != want {
		t.Errorf("message %q", end.Message)
	}
	g.setDown(false)
	mustRun(t, a.dir, r)
	if end := mustEnd(t, a.dir, "setup"); end.Outcome != Exited || len(g.commands()) != 1 {
		t.Errorf("end %+v, ran %d times", end, len(g.commands()))
	}
}

func TestNoTimeoutAsksOnce(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	r := GuestRun{ID: "main", Command: vm.GuestCommand{Argv: []string{"succeed"}}}
	mustRun(t, a.dir, r)
	if end := mustEnd(t, a.dir, "main"); end.Outcome != Exited {
		t.Errorf("end %+v", end)
	}
}

func TestAgentThatGoesAwayIsWaitedForAgain(t *testing.T) {
	g := newFakeGuest()
	g.goesAway = 2
	a := serveAttempt(t, g)
	mustRun(t, a.dir, guestRun("main", "fail"))
	if end := mustEnd(t, a.dir, "main"); end.Outcome != Exited || end.Code != 3 {
		t.Errorf("end %+v", end)
	}
	g.goesAway = 1
	short := guestRun("init-0", "fail")
	short.Timeout = 0
	mustRun(t, a.dir, short)
	end := mustEnd(t, a.dir, "init-0")
	if _, begun, err := ReadBegun(a.dir, "init-0"); begun || err != nil || end.Outcome != Unreachable {
		t.Errorf("begun %v, err %v, end %+v", begun, err, end)
	}
}

func TestMachineEnds(t *testing.T) {
	t.Run("a command that runs is lost", func(t *testing.T) {
		g := newFakeGuest()
		a := serveAttempt(t, g)
		mustRun(t, a.dir, guestRun("main", "hang"))
		receive(t, "the command runs", g.running)
		a.commands.close()
		if end := mustEnd(t, a.dir, "main"); end.Outcome != Lost || !strings.Contains(end.Message, "the VM ended") {
			t.Errorf("end %+v", end)
		}
	})
	t.Run("an exit that still comes counts", func(t *testing.T) {
		g := newFakeGuest()
		a := serveAttempt(t, g)
		a.commands.exitPatience = deadline
		mustRun(t, a.dir, guestRun("main", "hang"))
		receive(t, "the command runs", g.running)
		go func() { g.release <- 143 }()
		a.commands.close()
		if end := mustEnd(t, a.dir, "main"); end.Outcome != Exited || end.Code != 143 {
			t.Errorf("end %+v", end)
		}
	})
	t.Run("what did not begin is not waited for", func(t *testing.T) {
		g := newFakeGuest()
		a := serveAttempt(t, g)
		a.commands.exitPatience = deadline
		mustRun(t, a.dir, guestRun("main", "hang"))
		receive(t, "the command runs", g.running)
		g.setDown(true)
		began := make(chan error, 1)
		go func() { began <- Run(bounded(t), a.dir, guestRun("late", "succeed")) }()
		awaitCommand(t, a, "late")
		closed := make(chan struct{})
		go func() { defer close(closed); a.commands.close() }()
		if err := receive(t, "the answer", began); err != nil {
			t.Error(err)
		}
		if end := mustEnd(t, a.dir, "late"); end.Outcome != Unreachable || !strings.Contains(end.Message, "the VM ended") {
			t.Errorf("end %+v", end)
		}
		if _, end, err := ReadCommand(a.dir, "main"); end != nil || err != nil {
			t.Errorf("end %+v, err %v", end, err)
		}
		g.release <- 0
		receive(t, "the end of all", closed)
	})
	t.Run("nothing begins any more", func(t *testing.T) {
		a := serveAttempt(t, newFakeGuest())
		a.commands.close()
		if err := Run(bounded(t), a.dir, guestRun("main", "succeed")); !errors.Is(err, ErrNoShim) {
			t.Errorf("err %v", err)
		}
	})
}

func TestTheExitRecordIsTheLast(t *testing.T) {
	g, dir := newFakeGuest(), t.TempDir()
	holdLock(t, dir)
	gate := filepath.Join(dir, "gate")
	spec := Spec{Run: Command{Path: "/bin/sh", Args: []string{"-c", "while [ ! -e " + gate + " ]; do sleep 0.01; done"}}}
	held := make(chan error, 1)
	go func() { held <- runWithGuest(dir, spec, g, nil) }()
	mustRun(t, dir, guestRun("main", "stubborn"))
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	receive(t, "the command is given up", g.running)
	if _, found, err := ReadExit(dir); found || err != nil {
		t.Errorf("found %v, err %v", found, err)
	}
	g.release <- 9
	if err := receive(t, "the shim ends", held); err != nil {
		t.Error(err)
	}
	_, exited, err := ReadExit(dir)
	if _, end, endErr := ReadCommand(dir, "main"); !exited || end == nil || end.Code != 9 || err != nil || endErr != nil {
		t.Errorf("exited %v, end %+v, err %v, %v", exited, end, err, endErr)
	}
}

func TestNoShim(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	mustRun(t, a.dir, guestRun("setup", "fail"))
	mustEnd(t, a.dir, "setup")
	// As a shim that was killed leaves it.
	if err := atomicfile.WriteJSON(begunFile(a.dir, "init-0"), Begun{ID: "init-0"}); err != nil {
		t.Fatal(err)
	}
	a.gone()
	if end := mustEnd(t, a.dir, "setup"); end == nil || end.Code != 3 {
		t.Errorf("end %+v", end)
	}
	for _, id := range []string{"init-0", "main"} {
		if end := mustEnd(t, a.dir, id); end != nil {
			t.Errorf("%s: end %+v", id, end)
		}
	}
	if begun, end, err := ReadCommand(a.dir, "init-0"); !begun || end != nil || err != nil {
		t.Errorf("begun %v, end %+v, err %v", begun, end, err)
	}
	if err := Run(bounded(t), a.dir, guestRun("main", "succeed")); !errors.Is(err, ErrNoShim) {
		t.Errorf("err %v", err)
	}
	// It is known, and must not seem refused.
	mustRun(t, a.dir, guestRun("init-0", "succeed"))
}

func TestEnvironmentIsNeverOnADisk(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	r := guestRun("main", "print")
	r.Command.Env, r.Log = []string{"TOKEN=hunter2"}, "main.log"
	mustRun(t, a.dir, r)
	mustEnd(t, a.dir, "main")
	if got := g.commands()[0].Env; !cmp.Equal(got, r.Command.Env) {
		t.Errorf("the guest got %q", got)
	}
	files, err := filepath.Glob(filepath.Join(a.dir, "*"))
	if err != nil || len(files) < 4 {
		t.Fatalf("files %q, err %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(data), "hunter2") {
			t.Errorf("%s has it", file)
		}
	}
}

func TestNothingRunsWithoutARecord(t *testing.T) {
	g := newFakeGuest()
	a := serveAttempt(t, g)
	// Where the record is written before it gets its name.
	blocked := atomicfile.Temp(begunFile(a.dir, "main"))
	if err := os.MkdirAll(filepath.Join(blocked, "in its place"), 0o700); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if err := Run(bounded(t), a.dir, guestRun("main", "succeed")); !errors.As(err, &refused) || refused.Code != RefusedRecord {
		t.Errorf("err %v", err)
	}
	if n := len(g.commands()); n != 0 {
		t.Errorf("it ran %d times", n)
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	mustRun(t, a.dir, guestRun("main", "succeed"))
	if end := mustEnd(t, a.dir, "main"); end.Outcome != Exited {
		t.Errorf("end %+v", end)
	}
}

func TestACallerMayGo(t *testing.T) {
	g := newFakeGuest()
	g.setDown(true)
	a := serveAttempt(t, g)
	ctx, cancel := context.WithCancelCause(t.Context())
	began := make(chan error, 1)
	go func() { began <- Run(ctx, a.dir, guestRun("main", "succeed")) }()
	awaitCommand(t, a, "main")
	why := errors.New("the agent stops")
	cancel(why)
	if err := receive(t, "the caller goes", began); !errors.Is(err, why) {
		t.Errorf("err %v", err)
	}
	g.setDown(false)
	if end := mustEnd(t, a.dir, "main"); end.Outcome != Exited {
		t.Errorf("end %+v", end)
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	a := serveAttempt(t, newFakeGuest())
	with := func(change func(*GuestRun)) GuestRun {
		r := guestRun("main", "succeed")
		change(&r)
		return r
	}
	for name, r := range map[string]GuestRun{
		"no ID":               with(func(r *GuestRun) { r.ID = "" }),
		"an ID as a path":     with(func(r *GuestRun) { r.ID = "../main" }),
		"no argv":             with(func(r *GuestRun) { r.Command.Argv = nil }),
		"a log elsewhere":     with(func(r *GuestRun) { r.Log = "../main.log" }),
		"a log over a file":   with(func(r *GuestRun) { r.Log = exitFile }),
		"the machine's log":   with(func(r *GuestRun) { r.Log = outputFile }),
		"bytes as argument":   with(func(r *GuestRun) { r.Command.Argv = []string{"a", "\xff"} }),
		"bytes in a variable": with(func(r *GuestRun) { r.Command.Env = []string{"TOKEN=hunter2\xff"} }),
	} {
		var refused *RefusedError
		err := Run(bounded(t), a.dir, r)
		if !errors.As(err, &refused) || refused.Code != RefusedInvalid || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	var refused *RefusedError
	if _, err := AwaitCommand(bounded(t), a.dir, "main"); !errors.As(err, &refused) || refused.Code != RefusedUnknown {
		t.Errorf("a command nobody ran: %v", err)
	}
}

// A container that is restarted again and again in one guest leaves next to nothing in its
// shim, and nothing on the disk once its run is forgotten.
func TestCommandsOfTheSameGuestDoNotAddUp(t *testing.T) {
	a := serveAttempt(t, newFakeGuest())
	for _, id := range []string{"main", "main-r1"} {
		r := guestRun(id, "print")
		r.Log, r.Command.Env = id+".log", []string{"A=1"}
		mustRun(t, a.dir, r)
		mustEnd(t, a.dir, id)
	}
	if kept := a.commands.find("main").Command; len(kept.Env)+len(kept.Argv) > 0 {
		t.Errorf("the shim keeps %+v", kept)
	}
	if err := os.WriteFile(filepath.Join(a.dir, "main.log.1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Forget(a.dir, "main", "main.log"); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(a.dir, "*main*"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"command-main-r1.begun.json", "command-main-r1.ended.json", "main-r1.log"}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if d := cmp.Diff(want, left); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// A guest may end a call with an error of any length.
func TestErrorsAreKeptShort(t *testing.T) {
	line := oneLine(errors.New("first\n" + strings.Repeat("ä", maxMessage)))
	if len(line) > maxMessage+len("…") || !strings.HasPrefix(line, "first; ä") || !utf8.ValidString(line) {
		t.Errorf("%d bytes, from %.20q", len(line), line)
	}
}
