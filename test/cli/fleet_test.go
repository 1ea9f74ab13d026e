package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/sandbox/cluster"
)

// fleet is a real API server with a pool of Macs that nobody runs, and the environment of a
// person who asks about them.
type fleet struct {
	*testing.T
	env []string
}

// TestOfAFleet has a real API server answer the built program, in a pipe, on a narrow terminal
// and below a real kubectl.
func TestOfAFleet(t *testing.T) {
	f := newFleet(t)
	t.Run("on a narrow terminal", func(t *testing.T) { (&fleet{t, f.env}).fitsANarrowTerminal() })
	t.Run("as kubectl's plugin", func(t *testing.T) { (&fleet{t, f.env}).isAPlugin() })
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	log.SetLogger(logr.Discard())
	started, err := cluster.Start(t.Context(), cluster.Options{Binaries: programs.Cluster, Dir: t.TempDir(), WithoutCore: true})
	must(err)
	t.Cleanup(func() {
		if err := started.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	crds := []string{filepath.Join(root(t), "charts", "macfleet", "crds"), filepath.Join(programs.Cluster.Manifests, "crds")}
	_, err = envtest.InstallCRDs(started.Config(), envtest.CRDInstallOptions{Paths: crds, ErrorIfPathMissing: true})
	must(err)
	scheme := runtime.NewScheme()
	must(infrav1.AddToScheme(scheme))
	c, err := client.New(started.Config(), client.Options{Scheme: scheme})
	must(err)
	for _, host := range clitest.Fleet().Hosts {
		if host.Spec.Release != nil {
			host.Spec.Release.PoolPrefix = "tuist-pool-"
		}
		status := host.Status
		host.ResourceVersion = ""
		must(c.Create(t.Context(), &host))
		host.Status = status
		must(c.Status().Update(t.Context(), &host))
	}
	return &fleet{t, []string{"KUBECONFIG=" + started.Kubeconfig(), "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "TERM=xterm"}}
}

// narrow is a terminal of a telephone.
const narrow = 40

func (f *fleet) fitsANarrowTerminal() {
	for _, verb := range []string{"status", "hosts"} {
		piped := runProgram(f.T, f.env, programs.macfleet, verb)
		if piped.code != 0 {
			f.Fatalf("macfleet %s: exit code %d: %s", verb, piped.code, piped.stderr)
		}
		shown := f.onTerminal(verb)
		for line := range strings.Lines(shown) {
			line = strings.TrimRight(line, "\r\n")
			// A name or a command, which people copy, is whole: the terminal breaks it.
			whole := !strings.HasPrefix(line, " ") && strings.Contains(line, "fr-par-1-")
			if width := len([]rune(line)); width > narrow && !whole {
				f.Errorf("macfleet %s: %d columns in %q", verb, width, line)
			}
		}
		if d := cmp.Diff(words(piped.stdout), words(shown)); d != "" {
			f.Errorf("macfleet %s on %d columns does not say the same (-pipe +terminal):\n%s\n%s", verb, narrow, d, shown)
		}
	}
}

// onTerminal is what the program prints to a terminal, without colours.
func (f *fleet) onTerminal(args ...string) string {
	f.Helper()
	cmd := exec.CommandContext(f.Context(), programs.macfleet, args...)
	cmd.Env = f.env
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 20, Cols: narrow})
	if err != nil {
		f.Fatal(err)
	}
	defer terminal.Close()
	shown, err := io.ReadAll(terminal)
	if err != nil && !errors.Is(err, syscall.EIO) { // which ends a terminal
		f.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		f.Fatalf("macfleet %v: %v\n%s", args, err, shown)
	}
	return colour.ReplaceAllString(string(shown), "")
}

var (
	colour = regexp.MustCompile("\x1b\\[[0-9;]*m")
	// age is what may be another in the next second.
	age = regexp.MustCompile(`^\d+[smhdy](\d+[smhd])?$`)
)

// words are those of a text, each once.
func words(text string) []string {
	var found []string
	for word := range strings.FieldsSeq(text) {
		if !age.MatchString(word) {
			found = append(found, word)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// isAPlugin types what docs/operate/cli.md says, with what it says to put into PATH.
func (f *fleet) isAPlugin() {
	dir := f.TempDir()
	page, err := os.ReadFile(filepath.Join(root(f.T), "docs", "operate", "cli.md"))
	if err != nil {
		f.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "`kubectl_complete-macfleet`")
	_, script, found := strings.Cut(after, "\n```\n")
	script, _, _ = strings.Cut(script, "```")
	if !found || !strings.HasPrefix(script, "#!/bin/sh\n") {
		f.Fatalf("docs/operate/cli.md has no script for the completion: %q", script)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl_complete-macfleet"), []byte(script), 0o700); err != nil {
		f.Fatal(err)
	}
	for name, program := range map[string]string{"kubectl": programs.Cluster.ControlPlane, "macfleet": programs.macfleet, "kubectl-macfleet": programs.macfleet} {
		if err := os.Symlink(program, filepath.Join(dir, name)); err != nil {
			f.Fatal(err)
		}
	}
	env := append(slices.Clone(f.env), "PATH="+dir+":"+os.Getenv("PATH"))
	kubectl := func(args ...string) result { return runProgram(f.T, env, filepath.Join(dir, "kubectl"), args...) }

	said, alone := kubectl("macfleet", "status"), runProgram(f.T, env, programs.macfleet, "status")
	if d := cmp.Diff(words(alone.stdout), words(said.stdout)); d != "" || said.code != 0 || said.stderr != "" {
		f.Errorf("kubectl macfleet status: exit code %d, %s (-macfleet +kubectl):\n%s", said.code, said.stderr, d)
	}
	checkOneLine(f.T, kubectl("macfleet", "explain", "host", "nobody"), 1, "nobody")

	host := clitest.Fleet().Hosts[0].Name
	for want, args := range map[string][]string{"hosts": {"hos"}, host: {"explain", "host", "fr-par-1-00000001"}} {
		completed := kubectl(append([]string{"__complete", "macfleet"}, args...)...)
		candidates := strings.FieldsFunc(completed.stdout, func(r rune) bool { return r == '\n' || r == '\t' })
		if !slices.Contains(candidates, want) || completed.code != 0 {
			f.Errorf("kubectl macfleet %v is completed with %q (exit code %d, %s), want %q", args, completed.stdout, completed.code, completed.stderr, want)
		}
	}
}
