package tart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/vmtest"
)

// What tart says is kept in testdata, a directory a version: "tart-…" from the real
// one, "simulated-…" from ours. The driver must read all of them in the same way.

// said is the end of one tart command.
type said struct {
	code           int
	stdout, stderr string
}

func (s said) String() string {
	return fmt.Sprintf("exit %d\n-- stdout\n%s\n-- stderr\n%s\n", s.code, strings.TrimSpace(s.stdout), strings.TrimSpace(s.stderr))
}

func parseSaid(text string) (said, error) {
	head, rest, ok1 := strings.Cut(text, "\n-- stdout\n")
	stdout, stderr, ok2 := strings.Cut(rest, "\n-- stderr\n")
	code, err := strconv.Atoi(strings.TrimPrefix(head, "exit "))
	if !ok1 || !ok2 || err != nil {
		return said{}, fmt.Errorf("not what a command said: %q", text)
	}
	return said{code, stdout, stderr}, nil
}

// reading is what the driver must make of it: an error, or how a machine ended. A zero
// one is not read by the driver.
type reading struct {
	err error
	end vm.OutcomeKind
}

func readings() map[string]reading {
	return map[string]reading{
		"version": {}, "get": {}, "list": {}, "ip-of-stopped": {}, "usage": {}, "set-too-small": {}, "stop-missing": {},
		"pull-missing":   {err: vm.ErrImageNotFound},
		"pull-private":   {err: vm.ErrAuth},
		"clone-missing":  {err: vm.ErrNotFound},
		"delete-missing": {err: vm.ErrNotFound},
		"delete-running": {err: vm.ErrRunning},
		"run-missing":    {end: vm.NotStarted},
		"run-again":      {end: vm.NotStarted},
		"run-stopped":    {end: vm.Stopped},
		"run-shut-down":  {end: vm.ShutDown},
		"run-limit":      {end: vm.Limited},
	}
}

// TestRecorded reads everything that was ever recorded.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("nothing recorded: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseSaid(string(data))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		want, ok := readings()[name]
		if !ok {
			t.Errorf("%s: nobody knows what it is to mean", file)
		}
		if want.err != nil && !errors.Is(kindOf(s.code, s.stdout+"\n"+s.stderr), want.err) {
			t.Errorf("%s is not read as %q", file, want.err)
		}
		if want.end != "" {
			if got := (&Driver{}).Classify(vm.RunEnd{Code: s.code, Tail: s.stdout + "\n" + s.stderr}); got.Kind != want.end {
				t.Errorf("%s is read as %+v, want %s", file, got, want.end)
			}
		}
	}
}

// TestContract compares what tart says now with what was recorded of its version.
func TestContract(t *testing.T) {
	if *realTart != "" {
		d := realDriver(t)
		contract(t, d, vmtest.Subject{Driver: d, Image: *realImage, Missing: *realMissing, Private: *realPrivate, Patience: 5 * time.Minute}, "tart-")
		return
	}
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			f := newFake(t, map[string]any{"version": version})
			s := f.subject()
			s.Driver = f.Driver
			contract(t, f.Driver, s, "simulated-")
		})
	}
}

func contract(t *testing.T, d *Driver, s vmtest.Subject, prefix string) {
	t.Helper()
	info, err := d.Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &conversation{t: t, d: d, dir: filepath.Join("testdata", prefix+info.Version)}
	c.keep("version", c.say("--version"))
	vmtest.Create(t, s, "tk-c-0")
	c.quiet(s)
	c.running(s)
	c.limit(s)
	if *record {
		t.Logf("recorded in %s", c.dir)
	}
}

// conversation keeps what tart says.
type conversation struct {
	t   *testing.T
	d   *Driver
	dir string
}

// quiet asks while nothing runs.
func (c *conversation) quiet(s vmtest.Subject) {
	if s.Missing != "" {
		c.keep("pull-missing", c.say("pull", s.Missing))
	}
	if s.Private != "" {
		c.keep("pull-private", c.say("pull", s.Private))
	}
	c.keep("clone-missing", c.say("clone", "no-such-machine", "tk-c-9"))
	c.keep("delete-missing", c.say("delete", "no-such-machine"))
	c.keep("stop-missing", c.say("stop", "no-such-machine"))
	c.keep("run-missing", c.say("run", "no-such-machine", "--no-graphics"))
	c.keep("set-too-small", c.say("set", "tk-c-0", "--memory", "1"))
	c.keep("ip-of-stopped", c.say("ip", "tk-c-0"))
	c.keep("usage", c.say("run", "tk-c-0", "--no-such-flag"))
	c.keep("get", c.shape(c.say("get", "tk-c-0", "--format", "json")))
	c.keep("list", c.shape(c.say("list", "--source", "oci", "--format", "json")))
}

// running asks while a machine runs, and looks at how it ends.
func (c *conversation) running(s vmtest.Subject) {
	ended := vmtest.Run(c.t, s, "tk-c-0")
	vmtest.Up(c.t, s, "tk-c-0")
	c.keep("delete-running", c.say("delete", "tk-c-0"))
	c.keep("run-again", c.say("run", "tk-c-0", "--no-graphics"))
	c.stop(s, 0)
	c.keep("run-stopped", c.end(s, ended))
	ended = vmtest.Run(c.t, s, "tk-c-0")
	vmtest.Up(c.t, s, "tk-c-0")
	c.stop(s, 2*time.Minute)
	c.keep("run-shut-down", c.end(s, ended))
}

func (c *conversation) limit(s vmtest.Subject) {
	for _, name := range []string{"tk-c-0", "tk-d-0"} {
		if name != "tk-c-0" {
			vmtest.Create(c.t, s, name)
		}
		vmtest.Run(c.t, s, name)
		vmtest.Up(c.t, s, name)
	}
	vmtest.Create(c.t, s, "tk-e-0")
	c.keep("run-limit", c.end(s, vmtest.Execute(c.t, s, "tk-e-0")))
}

func (c *conversation) stop(s vmtest.Subject, grace time.Duration) {
	c.t.Helper()
	if err := s.Driver.Stop(c.t.Context(), "tk-c-0", grace); err != nil {
		c.t.Fatal(err)
	}
}

func (c *conversation) end(s vmtest.Subject, ended <-chan vm.RunEnd) said {
	c.t.Helper()
	select {
	case e := <-ended:
		return said{code: e.Code, stdout: e.Tail}
	case <-time.After(max(s.Patience, 5*time.Minute)):
		c.t.Fatal("it never ended")
	}
	return said{}
}

func (c *conversation) say(args ...string) said {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.d.path, args...)
	cmd.Env = c.d.environ
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil {
		c.t.Fatalf("tart %q: %v", args, err)
	}
	return said{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// shape leaves the keys of JSON and the kinds of their values.
func (c *conversation) shape(s said) said {
	c.t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s.stdout), &v); err != nil {
		c.t.Errorf("%v in %q", err, s.stdout)
		return s
	}
	if rows, ok := v.([]any); ok && len(rows) > 0 {
		v = rows[0]
	}
	row, _ := v.(map[string]any)
	var lines []string
	for key, value := range row {
		lines = append(lines, fmt.Sprintf("%s %T", key, value))
	}
	slices.Sort(lines)
	s.stdout = strings.Join(lines, "\n")
	return s
}

var varying = []*regexp.Regexp{
	regexp.MustCompile(`sha256:[0-9a-f]{64}`),
	regexp.MustCompile(`/[A-Za-z0-9/._-]*/vms/`),
	regexp.MustCompile(`\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`),
}

// keep records, or compares with the record.
func (c *conversation) keep(name string, s said) {
	c.t.Helper()
	text := strings.ReplaceAll(s.String(), c.d.home, "HOME")
	for _, v := range varying {
		text = v.ReplaceAllString(text, "…")
	}
	file := filepath.Join(c.dir, name+".txt")
	if *record {
		if err := errors.Join(os.MkdirAll(c.dir, 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			c.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		c.t.Errorf("%v (record it with -record)", err)
		return
	}
	if d := cmp.Diff(string(want), text); d != "" {
		c.t.Errorf("%s (-recorded +now):\n%s", name, d)
	}
}
