package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// reportFile is the suite's own report in its folder.
const reportFile = "junit_01.xml"

// suite is one run of a suite that ginkgo runs.
type suite struct {
	// Binary is the suite's, and Args are its arguments, for a run that reports into a folder.
	Binary string
	Args   func(dir string) []string
	// Env is added to the environment of this process.
	Env []string
	// Dir takes a folder for each expression of Focus, with report and output.
	Dir string
	// Focus are the specs to run, in the order in which they begin.
	Focus []string
	Skip  []string
}

// outputFile is what the suite printed, in its folder.
const outputFile = "output.log"

// run runs the expressions of the focus, some of them at once, to the end of all; specs
// that fail are no error, but in the reports. A spec that several expressions match is run
// with the first of them.
func (s suite) run(ctx context.Context, atOnce int) (reports []string, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, focus := range s.Focus {
		dir := filepath.Join(s.Dir, strconv.Itoa(i+1))
		reports = append(reports, filepath.Join(dir, reportFile))
		group.Go(func() error { return s.runOne(ctx, dir, focus, slices.Concat(s.Skip, s.Focus[:i])) })
	}
	return reports, group.Wait()
}

// runOne runs one expression.
func (s suite) runOne(ctx context.Context, dir, focus string, skip []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making room for the suite's report: %w", err)
	}
	output, err := os.Create(filepath.Join(dir, outputFile))
	if err != nil {
		return fmt.Errorf("making room for the suite's output: %w", err)
	}
	defer func() { _ = output.Close() }()
	cmd := exec.CommandContext(ctx, s.Binary, append(s.Args(dir), chosen(focus, skip)...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	ended := new(exec.ExitError)
	if err := cmd.Run(); err != nil && (!errors.As(err, &ended) || ctx.Err() != nil) {
		return fmt.Errorf("running the suite: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, reportFile)); err != nil {
		return fmt.Errorf("the suite ended without a report, see what it printed in %s: %w", output.Name(), err)
	}
	return nil
}

// chosen says which specs ginkgo runs.
func chosen(focus string, skip []string) []string {
	args := []string{"--ginkgo.focus=" + focus, "--ginkgo.timeout=6h", "--ginkgo.no-color"}
	if len(skip) > 0 {
		args = append(args, "--ginkgo.skip="+strings.Join(skip, "|"))
	}
	return args
}

// kubernetes are the arguments of Kubernetes' suite, for a cluster of so many Macs.
func kubernetes(kubeconfig, kubectl string, nodes int) func(dir string) []string {
	return func(dir string) []string {
		return []string{
			"--kubeconfig=" + kubeconfig, "--kubectl-path=" + kubectl, "--provider=local",
			"--report-dir=" + dir, "--node-os-distro=debian", "--minStartupPods=0",
			// There is no Pod of the system on Macs: no network plugin, no DNS.
			fmt.Sprintf("--num-nodes=%d", nodes),
			// What is behind feature gates, takes a node away or needs minutes of peace is another suite.
			"--ginkgo.label-filter=Feature: isEmpty && !Disruptive && !Slow && !Serial",
		}
	}
}
