package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/macfleet/macfleet/sandbox/subprocess"
)

// script is a control plane that is a shell script: it notes its process id, then does as body says.
func script(t *testing.T, body string) Binaries {
	t.Helper()
	path := filepath.Join(t.TempDir(), "controlplane")
	write(t, path, "#!/bin/sh\necho $$ >pid.new && mv pid.new pid\n"+body+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return Binaries{ControlPlane: path}
}

// readyScript says that it is ready, with a kubeconfig that leads nowhere.
func readyScript(t *testing.T, body string) Binaries {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, `{"clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`)
	line, err := json.Marshal(ready{Server: "https://127.0.0.1:1", Kubeconfig: kubeconfig})
	if err != nil {
		t.Fatal(err)
	}
	return script(t, fmt.Sprintf("echo '%s'\n%s", line, body))
}

func pidIn(t *testing.T, dir string) int {
	t.Helper()
	var pid int
	eventually(t, "the script notes its process id", func(context.Context) (bool, error) {
		data, err := os.ReadFile(filepath.Join(dir, "pid"))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil, err
	})
	return pid
}

func TestStartLeavesNoProcessBehind(t *testing.T) {
	t.Run("when the control plane ends", func(t *testing.T) {
		_, err := Start(t.Context(), Options{Binaries: script(t, "echo no >&2; exit 3"), Dir: t.TempDir()})
		var exit *subprocess.ExitError
		if !errors.As(err, &exit) {
			t.Fatalf("error %v, want an ExitError", err)
		}
		log, readErr := os.ReadFile(exit.LogFile)
		if readErr != nil || string(log) != "no\n" {
			t.Errorf("the log holds %q, %v", log, readErr)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %q", err)
		}
	})
	t.Run("when the context ends first", func(t *testing.T) {
		dir := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := Start(ctx, Options{Binaries: script(t, "sleep 1000 & wait"), Dir: dir})
			failed <- err
		}()
		pid := pidIn(t, dir)
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that the context was cancelled", err)
		}
		if running(pid) {
			t.Error("the control plane still runs")
		}
	})
	t.Run("when the binary is missing", func(t *testing.T) {
		_, err := Start(t.Context(), Options{Binaries: Binaries{ControlPlane: filepath.Join(t.TempDir(), "none")}, Dir: t.TempDir()})
		if !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error %v, want that the file does not exist", err)
		}
	})
}

func TestDoneTellsOfAnEnd(t *testing.T) {
	dir := t.TempDir()
	c, err := Start(t.Context(), Options{Binaries: readyScript(t, "exec sleep 1000"), Dir: dir, WithoutCore: true})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
		t.Fatal("Done is closed while the control plane runs")
	default:
	}
	if err := syscall.Kill(c.PIDs()["control plane"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	var exit *subprocess.ExitError
	if !errors.As(c.Err(), &exit) || exit.Process != "control plane" {
		t.Errorf("error %v, want an ExitError of the control plane", c.Err())
	}
	for range 2 {
		if err := c.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	dir := t.TempDir()
	c, err := Start(t.Context(), Options{
		Binaries: readyScript(t, "trap '' TERM; while :; do sleep 1; done"), Dir: dir, WithoutCore: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "etcd.sock"), "")
	pid := c.PIDs()["control plane"]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if running(pid) {
		t.Error("the control plane still runs")
	}
	if exists(filepath.Join(dir, "etcd.sock")) {
		t.Error("its socket is still there")
	}
}

// A launcher that is killed cannot stop anything: the kernel must.
func TestKilledLauncherTakesItsProcessesAlong(t *testing.T) {
	const asLauncher = "MACFLEET_TEST_LAUNCHER_DIR"
	if dir := os.Getenv(asLauncher); dir != "" {
		_, err := Start(context.Background(), Options{Binaries: Binaries{ControlPlane: os.Getenv("MACFLEET_TEST_SCRIPT")}, Dir: dir})
		t.Fatalf("the launcher was not killed: %v", err)
	}
	dir := t.TempDir()
	launcher := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledLauncherTakesItsProcessesAlong$")
	launcher.Env = append(os.Environ(), asLauncher+"="+dir, "MACFLEET_TEST_SCRIPT="+script(t, "exec sleep 1000").ControlPlane)
	if err := launcher.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, dir)
	if err := launcher.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = launcher.Wait() // killed, so it is an error
	eventually(t, "the control plane ends", func(context.Context) (bool, error) { return !running(pid) || zombie(pid), nil })
	lock := func(context.Context) (bool, error) {
		c, err := Start(t.Context(), Options{Binaries: readyScript(t, "exec sleep 1000"), Dir: dir, WithoutCore: true})
		if errors.Is(err, ErrInUse) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return true, c.Stop(t.Context())
	}
	if err := wait.PollUntilContextTimeout(t.Context(), statePoll, startTimeout, true, lock); err != nil {
		t.Errorf("the directory cannot be used again: %v", err)
	}
}

// zombie tells whether nobody has yet taken notice of the end of an orphan.
func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(data), ") Z ")
}

func TestUpArgs(t *testing.T) {
	c := &Cluster{options: Options{
		Dir: "/state", Port: 6443, AuditLog: "/audit", APIServerArgs: []string{"--v=4"}, ControllerManagerArgs: []string{"--v=2"},
	}}
	want := "up --dir=/state --port=6443 --audit-log=/audit --kube-apiserver-arg=--v=4 --kube-controller-manager-arg=--v=2"
	if got := strings.Join(c.upArgs(), " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestFreePortsDiffer(t *testing.T) {
	ports, err := freePorts(t.Context(), 8)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		if seen[port] || portTaken(t.Context(), port) {
			t.Errorf("port %d is given twice, or taken", port)
		}
		seen[port] = true
	}
}
