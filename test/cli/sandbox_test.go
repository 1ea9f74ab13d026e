package cli

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/macfleet/macfleet/test/parttest"
)

// root is the checkout, for commands that build.
func root(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSandboxRefusesBadInput(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)

	for name, c := range map[string]struct {
		args  []string
		code  int
		words []string
	}{
		"unknown command":        {[]string{"fly"}, 2, []string{"fly", "--help"}},
		"unknown sandbox verb":   {[]string{"sandbox", "fly"}, 2, []string{"fly", "--help"}},
		"unknown flag":           {[]string{"sandbox", "up", "--fast"}, 2, []string{"--fast"}},
		"an argument too many":   {[]string{"sandbox", "up", "now"}, 2, []string{"now"}},
		"no hosts":               {[]string{"sandbox", "up", "--hosts", "0"}, 2, []string{"--hosts", "200"}},
		"more Macs than hosts":   {[]string{"sandbox", "up", "--hosts", "2", "--replicas", "3"}, 2, []string{"--replicas 3", "2"}},
		"hosts that are none":    {[]string{"sandbox", "up", "--hosts", "many"}, 2, []string{"many"}},
		"time that stands still": {[]string{"sandbox", "up", "--time-scale", "0"}, 2, []string{"--time-scale"}},
		"no checkout":            {[]string{"sandbox", "up"}, 1, []string{"checkout", "--source"}},
		"port taken":             {[]string{"sandbox", "up", "--port", port}, 1, []string{port, "taken"}},
		"status of nothing":      {[]string{"sandbox", "status"}, 1, []string{"no sandbox", "sandbox up"}},
		"kubectl of nothing":     {[]string{"sandbox", "kubectl", "get", "nodes"}, 1, []string{"no sandbox", "sandbox up"}},
		"demo of too few":        {[]string{"sandbox", "demo", "--hosts", "2"}, 2, []string{"--hosts", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			env := append(os.Environ(), "XDG_STATE_HOME="+state)
			checkOneLine(t, runProgram(t, env, programs.macfleet, c.args...), c.code, c.words...)
			checkEmpty(t, state)
		})
	}
}

func TestDownRefusesAFolderOfOthers(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(precious, []byte("years"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runProgram(t, os.Environ(), programs.macfleet, "sandbox", "down", "--dir", dir)
	checkOneLine(t, r, 1, "thesis.txt", "nothing is removed")
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// TestUpRefusesAFolderOfOthers: what `up` would fill, `down` could not clean.
func TestUpRefusesAFolderOfOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), []byte("years"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runProgram(t, os.Environ(), programs.macfleet, "sandbox", "up", "--dir", dir)
	checkOneLine(t, r, 1, "thesis.txt", "--dir")
}

func TestFullDisk(t *testing.T) {
	parttest.Skip(t)
	dir := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("making a small disk needs root: %v: %s", err, output)
	}
	defer func() {
		if output, err := exec.CommandContext(context.WithoutCancel(t.Context()), "umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
	}()
	cmd := exec.CommandContext(t.Context(), programs.macfleet, "sandbox", "up", "--dir", filepath.Join(dir, "sandbox"))
	cmd.Dir = root(t)
	output, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("a sandbox came up on a disk of 2 MB")
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "macfleet: ") || !strings.Contains(last, "space") {
		t.Errorf("the last line does not speak of space: %q", last)
	}
	checkNoProcess(t, dir)
	checkEmpty(t, dir)
}

// TestInterruptLeavesNothing presses Ctrl-C at each line that `up` prints, and at
// once.
func TestInterruptLeavesNothing(t *testing.T) {
	for _, lines := range parttest.Of(t, []int{0, 1, 2, 3, 4, 5}) {
		t.Run(fmt.Sprintf("after %d lines", lines), func(t *testing.T) {
			state := t.TempDir()
			dir := filepath.Join(state, "sandbox")
			cmd := exec.CommandContext(t.Context(), programs.macfleet, "sandbox", "up", "--hosts", "2", "--dir", dir)
			cmd.Dir = root(t)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			reader := bufio.NewReader(stdout)
			for range lines {
				if _, err := reader.ReadString('\n'); err != nil {
					break
				}
			}
			// A terminal sends it to the whole foreground group.
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			_, _ = reader.WriteTo(discard{})
			_ = cmd.Wait()
			// Before it handles signals, the signal itself ends the program: -1.
			if code := cmd.ProcessState.ExitCode(); code != 130 && (lines > 0 || code != -1) {
				t.Errorf("exit code %d, want 130", code)
			}
			checkNoProcess(t, dir)
			checkEmpty(t, state)
		})
	}
}

// TestDeadStarterLeavesNothing kills `up` while the sandbox starts: the process that
// holds the sandbox stops and clears up by itself.
func TestDeadStarterLeavesNothing(t *testing.T) {
	parttest.Skip(t)
	state := t.TempDir()
	dir := filepath.Join(state, "sandbox")
	cmd := exec.CommandContext(t.Context(), programs.macfleet, "sandbox", "up", "--hosts", "2", "--dir", dir)
	cmd.Dir = root(t)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(stdout)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			t.Fatalf("up ended first: %v", err)
		}
		if strings.HasPrefix(line, "starting the control plane") {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	checkNoProcess(t, dir)
	checkEmpty(t, state)
}

// TestSandboxMindsItsProcesses: a manager that dies is started again; when core dies
// the sandbox ends, and says why to whoever asks.
func TestSandboxMindsItsProcesses(t *testing.T) {
	parttest.Skip(t)
	dir := filepath.Join(t.TempDir(), "sandbox")
	sandbox := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), programs.macfleet, append([]string{"sandbox", "--dir", dir}, args...)...)
		cmd.Dir = root(t)
		return cmd.CombinedOutput()
	}
	if output, err := sandbox("up", "--hosts", "1", "--replicas", "0"); err != nil {
		t.Fatalf("up: %v\n%s", err, output)
	}
	defer func() {
		if output, err := sandbox("down"); err != nil {
			t.Errorf("down: %v\n%s", err, output)
		}
		checkNoProcess(t, dir)
	}()
	first := killOne(t, dir, "/manager")
	awaitTrue(t, "another manager", func() bool {
		again := pidsOf(dir, "/manager")
		return len(again) == 1 && again[0] != first
	})
	killOne(t, dir, "/core")
	awaitTrue(t, "the end of the sandbox, with its reason", func() bool {
		output, err := sandbox("status")
		return err != nil && strings.Contains(string(output), "ended by itself") && strings.Contains(string(output), "core.log")
	})
}

// killOne kills the one process of the sandbox whose program has this name.
func killOne(t *testing.T, dir, program string) int {
	t.Helper()
	var pids []int
	awaitTrue(t, "one process of "+program, func() bool { // it may be between two starts
		pids = pidsOf(dir, program)
		return len(pids) == 1
	})
	if len(pids) != 1 {
		t.Fatalf("processes of %s: %v, want one", program, pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return pids[0]
}

// pidsOf finds the processes of the sandbox in dir whose program has this name.
func pidsOf(dir, program string) []int {
	var pids []int
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		command, err := os.ReadFile(path)
		name, _, _ := strings.Cut(string(command), "\x00")
		if err != nil || !strings.HasSuffix(name, program) || !strings.Contains(string(command), dir) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// awaitTrue is patient: a sandbox that ends by itself gives its processes about a minute in all.
func awaitTrue(t *testing.T, what string, condition func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		return condition(), nil
	})
	if err != nil {
		t.Errorf("waiting for %s: %v", what, err)
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// checkEmpty checks that nothing is left in a folder.
func checkEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "macfleet" { // the folder that holds sandboxes
			checkEmpty(t, filepath.Join(dir, entry.Name()))
			continue
		}
		t.Errorf("%s is left in %s", entry.Name(), dir)
	}
}

// checkNoProcess checks that no process works for the sandbox in dir. What was
// killed may take a moment to be gone.
func checkNoProcess(t *testing.T, dir string) {
	t.Helper()
	var left []string
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		left = processesOf(dir)
		return len(left) == 0, nil
	})
	if err != nil {
		t.Errorf("processes are left: %v", left)
	}
}

// processesOf finds processes by what their command line or environment says.
func processesOf(dir string) []string {
	var found []string
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range commands {
		command, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		working, _ := os.Readlink(filepath.Join(filepath.Dir(path), "cwd"))
		if strings.Contains(string(command), dir) || strings.HasPrefix(working, dir) {
			found = append(found, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}
