package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/sandbox/world"
)

// TestKubectlLooksIntoAPod has kubectl itself do what people do to a running Pod, through
// an API server that checks what kubelets serve with.
func TestKubectlLooksIntoAPod(t *testing.T) {
	t.Parallel()
	f := start(t, world.Options{Hosts: 1, MetricsServer: true})
	f.awaitPool(1)
	f.scale(1)
	f.awaitRunning(1)
	_, node := f.aMac()
	f.awaitServing(node)
	pod := f.podOn(node, "look", corev1.RestartPolicyAlways)
	pod.Spec.Containers[0].Command = []string{"/bin/sh", "-c", `echo started with "$COLOUR"; echo to stderr >&2; while :; do sleep 1; echo tick; done`}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "COLOUR", Value: "blue"},
		{Name: "PATH", Value: "/Users/admin/bin:/bin:/usr/bin:/usr/sbin:/usr/local/bin"},
	}
	if err := f.client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	f.awaitPods(1)
	for _, part := range []struct {
		name string
		run  func(*fleet)
	}{
		{"logs", (*fleet).readsLogs},
		{"exec", (*fleet).runsCommands},
		{"cp", (*fleet).copiesFiles},
		{"hostile cp", (*fleet).copiesFromAHostileGuest},
		{"port-forward", (*fleet).forwardsPorts},
		{"debug", (*fleet).refusesDebug},
		{"terminal", (*fleet).opensATerminal},
		{"attach", func(f *fleet) { f.attaches(node) }},
		{"run", func(f *fleet) { f.runsAtOnce(node) }},
		{"previous", func(f *fleet) { f.readsAnEarlierLife(node) }},
		{"containers", func(f *fleet) { f.readsEachContainersLog(node) }},
		{"describe", func(f *fleet) { f.describesNode(node) }},
		{"top", func(f *fleet) { f.showsUsage(node) }},
		{"strangers", func(f *fleet) { f.refusesStrangers(node) }},
		{"drain", func(f *fleet) { f.drainsWithGrace(node) }}, // last: no Pod is left
	} {
		t.Run(part.name, func(t *testing.T) { part.run(f.on(t)) })
	}
}

// awaitServing waits until the Node says that it serves with a signed certificate.
func (f *fleet) awaitServing(name string) {
	f.Helper()
	f.await("a signed serving certificate", func() (string, bool) {
		node := f.node(name)
		if port := node.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 10250 {
			return fmt.Sprint("port ", port), false
		}
		for _, c := range node.Status.Conditions {
			if c.Type == "ServingCertificateReady" {
				return fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message), c.Status == corev1.ConditionTrue
			}
		}
		return "no such condition", false
	})
}

// outcome of a kubectl.
type outcome struct {
	out, err string
	code     int
}

// try runs kubectl to its end, with an input.
func (f *fleet) try(stdin io.Reader, args ...string) outcome {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := binaries.Cluster.Kubectl(ctx, f.world.Kubeconfig(), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	err := cmd.Run()
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		f.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return outcome{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// readsLogs reads what was printed, and what is being printed.
func (f *fleet) readsLogs() {
	// A Pod runs before its command has printed, and its two streams come in any order.
	f.await("what was printed", func() (string, bool) {
		got := f.try(nil, "logs", "look")
		return fmt.Sprintf("%+v", got), got.code == 0 && strings.Contains("\n"+got.out, "\nstarted with blue\n") && strings.Contains(got.out, "to stderr\n")
	})
	if got := f.try(nil, "logs", "look", "--tail=1"); got.code != 0 || strings.Count(got.out, "\n") != 1 {
		f.Errorf("the last line: %+v", got)
	}
	if got := f.try(nil, "logs", "look", "--limit-bytes=7"); len(got.out) != 7 {
		f.Errorf("seven bytes: %+v", got)
	}
	if got := f.try(nil, "logs", "look", "--previous"); got.code == 0 || !strings.Contains(got.err, "previous terminated container") {
		f.Errorf("of a life that never was: %+v", got)
	}
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	following := binaries.Cluster.Kubectl(ctx, f.world.Kubeconfig(), "logs", "look", "-f", "--tail=0")
	out, err := following.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := following.Start(); err != nil {
		f.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for range 2 {
		if !lines.Scan() || lines.Text() != "tick" {
			f.Errorf("following: %q, %v", lines.Text(), lines.Err())
		}
	}
	cancel()
	_ = following.Wait() // it was ended
}

// runsCommands has them run beside the Pod's own.
func (f *fleet) runsCommands() {
	got := f.try(nil, "exec", "look", "--", "/bin/sh", "-c", `echo "out $COLOUR"; echo err >&2; exit 3`)
	// Released guest agents stall on two outputs of one call.
	if got.code != 3 || got.out != "out blue\n" || !strings.HasPrefix(got.err, "err\n") {
		f.Errorf("exec: %+v", got)
	}
	if got := f.try(strings.NewReader("through\n"), "exec", "-i", "look", "--", "cat"); got.code != 0 || got.out != "through\n" {
		f.Errorf("an input: %+v", got)
	}
	if got := f.try(nil, "exec", "look", "--", "/no/such/program"); got.code == 0 || !strings.Contains(got.err, `"/no/such/program": the guest could not start the command: no such file or directory`) {
		f.Errorf("no such program: %+v", got)
	}
	if got := f.try(nil, "exec", "look", "-c", "other", "--", "true"); got.code == 0 {
		f.Errorf("no such container: %+v", got)
	}
}

// copiesFiles sends a megabyte there and back. tar complains of a leading slash, which must
// not come among the bytes.
func (f *fleet) copiesFiles() {
	dir := f.TempDir()
	sent := make([]byte, 1<<20)
	if _, err := rand.Read(sent); err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sent"), sent, 0o600); err != nil {
		f.Fatal(err)
	}
	if got := f.try(nil, "cp", filepath.Join(dir, "sent"), "look:/Users/admin/sent"); got.code != 0 {
		f.Fatalf("there: %+v", got)
	}
	if got := f.try(nil, "cp", "look:/Users/admin/sent", filepath.Join(dir, "back")); got.code != 0 {
		f.Fatalf("back: %+v", got)
	}
	back, err := os.ReadFile(filepath.Join(dir, "back"))
	if err != nil || !bytes.Equal(sent, back) {
		f.Errorf("%d bytes came back of %d (%v)", len(back), len(sent), err)
	}
}

// forwardsPorts reaches what listens on the guest's own loopback.
func (f *fleet) forwardsPorts() {
	got := f.try(nil, "exec", "look", "--", "/bin/sh", "-c",
		`cd /tmp; >heard; (((until grep -q question heard; do sleep 0.1; done; echo answer) | nc -l 8080 >heard) >/dev/null 2>&1 &)`)
	if got.code != 0 {
		f.Fatalf("listening: %+v", got)
	}
	// It listens in a moment; a connection before that ends the forwarding, too.
	f.await("an answer through the port", func() (string, bool) {
		answer, err := f.asksPort()
		return fmt.Sprintf("%q, %v", answer, err), answer == "answer\n"
	})
}

// asksPort has kubectl forward a port, and asks there.
func (f *fleet) asksPort() (answer string, err error) {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	forwarding := binaries.Cluster.Kubectl(ctx, f.world.Kubeconfig(), "port-forward", "pod/look", ":8080")
	out, err := forwarding.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := forwarding.Start(); err != nil {
		return "", err
	}
	defer func() {
		cancel()
		_ = forwarding.Wait() // it was ended
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return line, err
	}
	address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(line)
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return line, err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "question\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

// refusesDebug asks for a container beside the VM.
func (f *fleet) refusesDebug() {
	if got := f.try(nil, "debug", "look", "--image=busybox"); got.code == 0 || !strings.Contains(got.err, "kubectl exec runs further commands in the VM") {
		f.Errorf("debug: %+v", got)
	}
}

// describesNode looks for a kubelet's events of the Node.
func (f *fleet) describesNode(node string) {
	f.await("the events of the Node", func() (string, bool) {
		got := f.try(nil, "describe", "node", node)
		_, events, _ := strings.Cut(got.out, "Events:")
		return events + got.err, strings.Contains(events, "Starting") && strings.Contains(events, "status is now: NodeReady")
	})
}

// refusesStrangers asks a Mac for its Pods as nobody.
func (f *fleet) refusesStrangers(node string) {
	address := ""
	for _, a := range f.node(node).Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			address = a.Address
		}
	}
	stranger := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, path := range []string{"/pods", "/containerLogs/default/look/macos", "/exec/default/look/macos?command=id"} {
		request, err := http.NewRequestWithContext(f.Context(), http.MethodGet, "https://"+net.JoinHostPort(address, "10250")+path, nil)
		if err != nil {
			f.Fatal(err)
		}
		response, err := stranger.Do(request)
		if err != nil {
			f.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			f.Errorf("%s: %s", path, response.Status)
		}
	}
}
