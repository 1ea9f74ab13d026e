package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// reportFile is the suite's own report in its folder.
const reportFile = "junit_01.xml"

// suite is one run of Kubernetes' suite.
type suite struct {
	// Binary is the suite's, Kubectl a kubectl, Kubeconfig the cluster's.
	Binary, Kubectl, Kubeconfig string
	// Dir takes the reports.
	Dir string
	// Nodes is how many Macs there are.
	Nodes int
	Focus []string
	Skip  []string
	// Output gets what the suite prints.
	Output io.Writer
}

// run runs the suite to its end; specs that fail are no error, but in the report.
func (s suite) run(ctx context.Context) (report string, err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return "", fmt.Errorf("making room for the suite's report: %w", err)
	}
	cmd := exec.CommandContext(ctx, s.Binary, s.args()...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, s.Output, s.Output
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	ended := new(exec.ExitError)
	if err := cmd.Run(); err != nil && (!errors.As(err, &ended) || ctx.Err() != nil) {
		return "", fmt.Errorf("running the suite: %w", err)
	}
	report = filepath.Join(s.Dir, reportFile)
	if _, err := os.Stat(report); err != nil {
		return "", fmt.Errorf("the suite ended without a report: %w", err)
	}
	return report, nil
}

func (s suite) args() []string {
	args := []string{
		"--kubeconfig=" + s.Kubeconfig, "--kubectl-path=" + s.Kubectl, "--provider=local",
		"--report-dir=" + s.Dir, "--node-os-distro=debian", "--minStartupPods=0",
		// There is no Pod of the system on Macs: no network plugin, no DNS.
		fmt.Sprintf("--num-nodes=%d", s.Nodes),
		"--ginkgo.focus=" + strings.Join(s.Focus, "|"), "--ginkgo.timeout=6h", "--ginkgo.no-color",
		// What is behind feature gates, takes a node away or needs minutes of peace is another suite.
		"--ginkgo.label-filter=Feature: isEmpty && !Disruptive && !Slow && !Serial",
	}
	if len(s.Skip) > 0 {
		args = append(args, "--ginkgo.skip="+strings.Join(s.Skip, "|"))
	}
	return args
}
