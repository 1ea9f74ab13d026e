package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// talk is a kubectl that a person talks to, by lines.
type talk struct {
	*testing.T
	cmd   *exec.Cmd
	to    io.Writer
	lines chan string
}

// talking starts to read what kubectl says.
func talking(t *testing.T, cmd *exec.Cmd, to io.Writer, from io.Reader) *talk {
	k := &talk{T: t, cmd: cmd, to: to, lines: make(chan string, 64)}
	go func() {
		defer close(k.lines)
		// A terminal whose other side is gone ends with an error: to us it is the end.
		for lines := bufio.NewScanner(from); lines.Scan(); {
			k.lines <- strings.TrimRight(lines.Text(), "\r")
		}
	}()
	return k
}

// ask says a line, and waits for one that ends in the answer.
func (k *talk) ask(line, answer string) {
	k.Helper()
	if _, err := io.WriteString(k.to, line+"\n"); err != nil {
		k.Fatalf("saying %q: %v", line, err)
	}
	var heard []string
	for said := range k.lines {
		if heard = append(heard, said); strings.HasSuffix(said, answer) {
			return
		}
	}
	k.Fatalf("%q is answered with %q, not %q", line, heard, answer)
}

// ends expects kubectl to end with a code.
func (k *talk) ends(code int) {
	k.Helper()
	var heard []string
	for said := range k.lines {
		heard = append(heard, said)
	}
	_ = k.cmd.Wait() // its code says it
	if got := k.cmd.ProcessState.ExitCode(); got != code {
		k.Errorf("kubectl ends with %d, want %d; it said %q", got, code, heard)
	}
}

// interactive is a kubectl for a person, who has as much patience as the tests.
func (f *fleet) interactive(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	f.Cleanup(cancel)
	return binaries.Cluster.Kubectl(ctx, f.world.Kubeconfig(), args...)
}

// overPipes starts a kubectl whose input is no terminal.
func (f *fleet) overPipes(args ...string) *talk {
	f.Helper()
	cmd := f.interactive(args...)
	cmd.Stderr = os.Stderr
	to, err := cmd.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	from, err := cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	return talking(f.T, cmd, to, from)
}

// opensATerminal has a shell in a real terminal, which changes its size.
func (f *fleet) opensATerminal() {
	cmd := f.interactive("exec", "-it", "look", "--", "/bin/sh")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 101})
	if err != nil {
		f.Fatal(err)
	}
	defer terminal.Close()
	shell := talking(f.T, cmd, terminal, terminal)
	// kubectl sends sizes on a stream of their own.
	shell.ask("until [ \"$(stty size)\" = '33 101' ]; do sleep 0.1; done; test -t 0 && test -t 1 && echo a ter''minal", "a terminal")
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 40, Cols: 120}); err != nil {
		f.Fatal(err)
	}
	shell.ask("until [ \"$(stty size)\" = '40 120' ]; do sleep 0.1; done; echo big''ger", "bigger")
	shell.ask("echo $COLOUR", "blue")
	if _, err := io.WriteString(terminal, "exit 4\n"); err != nil {
		f.Fatal(err)
	}
	shell.ends(4)
}

// attaches to the command of a Pod that listens, twice.
func (f *fleet) attaches(node string) {
	pod := f.podOn(node, "listen", corev1.RestartPolicyNever)
	pod.Spec.Containers[0].Stdin = true
	pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", `while read -r line; do echo "heard $line"; [ "$line" = bye ] && exit 7; done`}
	if err := f.client.Create(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	f.awaitPods(2)
	first := f.overPipes("attach", "-i", "listen")
	first.ask("one", "heard one")
	if err := first.cmd.Process.Kill(); err != nil {
		f.Fatal(err)
	}
	_ = first.cmd.Wait() // it was ended
	f.overPipes("attach", "-i", "listen").ask("bye", "heard bye")
	f.awaitExit("listen", 7)
	f.deletePods(pod)
}

// runsAtOnce is kubectl run -i, which makes a Pod, attaches to it and removes it.
func (f *fleet) runsAtOnce(node string) {
	spec := f.podOn(node, "once", corev1.RestartPolicyNever).Spec
	overrides, err := json.Marshal(map[string]any{"spec": map[string]any{"nodeSelector": spec.NodeSelector, "tolerations": spec.Tolerations}})
	if err != nil {
		f.Fatal(err)
	}
	// kubectl's own patience with a Pod is a minute.
	run := f.overPipes("run", "once", "-i", "--rm", "--restart=Never", "--pod-running-timeout="+patience.String(), "--image="+spec.Containers[0].Image, "--overrides="+string(overrides),
		"--command", "--", "/bin/sh", "-c", `read -r line; echo "ran with $line"; exit 5`)
	run.ask("input", "ran with input")
	run.ends(5)
	f.await("the Pod to go", func() (string, bool) {
		pods := f.pods()
		return describePods(pods), len(pods) == 1
	})
}

// awaitFirstLine is what a Pod has printed once it has: it runs before.
func (f *fleet) awaitFirstLine(logsOf ...string) string {
	f.Helper()
	line := ""
	f.await("its first line", func() (string, bool) {
		got := f.try(nil, append([]string{"logs"}, logsOf...)...)
		line = got.out
		return fmt.Sprintf("%+v", got), got.code == 0 && strings.HasSuffix(line, "\n")
	})
	return line
}

// readsAnEarlierLife has the logs of the one before.
func (f *fleet) readsAnEarlierLife(node string) {
	pod := f.podOn(node, "again", corev1.RestartPolicyAlways)
	pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", `echo life of $$; while ! [ -e /tmp/fall ]; do sleep 0.1; done; exit 1`}
	if err := f.client.Create(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	f.awaitPods(2)
	life := f.awaitFirstLine("again")
	if got := f.try(nil, "exec", "again", "--", "touch", "/tmp/fall"); got.code != 0 {
		f.Fatalf("%+v", got)
	}
	f.await("the next life", func() (string, bool) {
		got := f.try(nil, "logs", "again", "--previous")
		return got.out + got.err, got.code == 0 && got.out == life
	})
	f.deletePods(pod)
}

// drainsWithGrace lets a command that handles SIGTERM end as it likes. A finalizer keeps
// the Pod for a look at its end.
func (f *fleet) drainsWithGrace(node string) {
	pod := f.podOn(node, "graceful", corev1.RestartPolicyNever)
	pod.Finalizers = []string{"e2e.macfleet.example/look"}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(3600))
	pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", `trap 'sleep 1; exit 42' TERM; echo up; while :; do sleep 0.1; done`}
	if err := f.client.Create(f.Context(), pod); err != nil {
		f.Fatal(err)
	}
	f.await("its first line", func() (string, bool) {
		got := f.try(nil, "logs", "graceful")
		return got.out + got.err, got.out == "up\n"
	})
	drain := f.overPipes("drain", node, "--ignore-daemonsets", "--force")
	f.awaitExit("graceful", 42)
	// A patch, as the agent goes on writing the Pod's status.
	if err := f.client.Patch(f.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		f.Fatal(err)
	}
	drain.ends(0)
}

// awaitExit waits until the Pod's command has ended with a code of its own.
func (f *fleet) awaitExit(name string, code int32) {
	f.Helper()
	f.await(fmt.Sprintf("exit code %d of %s", code, name), func() (string, bool) {
		var pod corev1.Pod
		f.get(name, &pod)
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Terminated != nil {
				return describePods([]corev1.Pod{pod}), c.State.Terminated.ExitCode == code
			}
		}
		return describePods([]corev1.Pod{pod}), false
	})
}
