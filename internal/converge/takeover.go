package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
)

const (
	daemonsDir = "/Library/LaunchDaemons"
	// formerPrefix starts the labels of all launchd jobs of the first system.
	formerPrefix = "dev.tuist."
	// formerAgentLabel is its node agent, whose program is document.AgentLink.
	formerAgentLabel = formerPrefix + "tart-kubelet"
	// formerAgentDir holds that agent's kubeconfig.
	formerAgentDir = "/etc/tart-kubelet"
)

// formerLabels are the launchd jobs that the first system installs beside its
// agent. Two systems at once fight over the guests and over the packet filter.
func formerLabels() []string {
	return []string{
		formerPrefix + "pfctl-runners",
		formerPrefix + "node-exporter",
		formerPrefix + "log-shipper",
		formerPrefix + "host-sensors",
	}
}

// formerFiles are what these leave beside. The lines in /etc/pf.conf and the live
// rules are the firewall step's. What running guests read stays: /var/lib/tart-userdata.
func formerFiles() []string {
	return []string{
		"/etc/pf.anchors/tuist.runners",
		"/etc/pf.anchors/tuist.sshguard",
		"/usr/local/bin/tuist-pf-vmnat",
		"/usr/local/bin/tuist-pf-sshguard",
		"/usr/local/bin/tuist-node-exporter-wrapper",
		"/usr/local/bin/tuist-log-shipper",
		"/usr/local/bin/tuist-host-sensors",
	}
}

// takesOver: what the first system installed is replaced in this run.
func (t *target) takesOver() bool { return t.TakeOver || t.desired.Host.TakeOver }

// takeOver retires what the first system installed beside its agent, under names
// that are known. What has another name is nobody's to remove: it is listed.
func (t *target) takeOver() step {
	var foreign []string
	return step{
		name: "take-over",
		about: "Only where the Mac is taken over from the first system of this kind, or with `--take-over`: boots out and removes the launchd jobs " + strings.Join(formerLabels(), ", ") +
			" and the files " + strings.Join(formerFiles(), ", ") + ". Its agent runs on until ours can be started: see `former-agent`. Other launchd jobs are listed and left alone.",
		undo: "None: install the first system again.",
		check: func(ctx context.Context) ([]string, error) {
			var err error
			if foreign, err = t.foreignDaemons(); err != nil {
				return nil, err
			}
			return t.former(ctx)
		},
		act: t.retire,
		note: func() string {
			if len(foreign) == 0 {
				return ""
			}
			return "launch daemons of others, left alone: " + strings.Join(foreign, ", ")
		},
	}
}

// formerJob is a job of the first system. Only what launchd needs is known of it.
func formerJob(label string) job {
	return job{name: label, label: label, plist: path.Join(daemonsDir, label+".plist")}
}

// former lists what is there of the jobs beside its agent.
func (t *target) former(ctx context.Context) ([]string, error) {
	var all []string
	paths := formerFiles()
	for _, label := range formerLabels() {
		j := formerJob(label)
		paths = append(paths, j.plist)
		_, loaded, err := t.printJob(ctx, j)
		if err != nil {
			return nil, err
		}
		if loaded {
			all = append(all, label+" is loaded")
		}
	}
	there, err := t.present(ctx, paths...)
	return append(all, there...), err
}

// present says which of the files are there.
func (t *target) present(ctx context.Context, paths ...string) ([]string, error) {
	var all []string
	for _, p := range paths {
		there, err := t.exists(ctx, p)
		if err != nil {
			return nil, fmt.Errorf("looking at %s: %w", p, err)
		}
		if there {
			all = append(all, p+" is there")
		}
	}
	return all, nil
}

func (t *target) retire(ctx context.Context) error {
	for _, label := range formerLabels() {
		j := formerJob(label)
		if err := t.bootOut(ctx, j); err != nil {
			return err
		}
		if err := t.remove(j.plist); err != nil {
			return err
		}
	}
	return t.remove(formerFiles()...)
}

// bootOut makes launchd forget a job of the first system, if it knows it.
func (t *target) bootOut(ctx context.Context, j job) error {
	_, loaded, err := t.printJob(ctx, j)
	if err != nil || !loaded {
		return err
	}
	if err := t.unload(ctx, j); err != nil {
		return fmt.Errorf("retiring %s: %w", j.label, err)
	}
	return nil
}

func (t *target) foreignDaemons() ([]string, error) {
	labels, err := t.daemons()
	if err != nil {
		return nil, err
	}
	known := append(formerLabels(), formerAgentLabel, document.AgentLabel, document.HostdLabel)
	return slices.DeleteFunc(labels, func(label string) bool { return slices.Contains(known, label) }), nil
}

// daemons are the labels of all launch daemons that are installed.
func (t *target) daemons() ([]string, error) {
	names, err := t.Mac.Files.List(daemonsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing %s: %w", daemonsDir, err)
	}
	labels := make([]string, 0, len(names))
	for _, name := range names {
		labels = append(labels, strings.TrimSuffix(name, ".plist"))
	}
	return labels, nil
}

// formerTraces are what the first system leaves on every Mac it had: its daemons,
// its agent's kubeconfig, and its agent's program where ours is a link.
func (t *target) formerTraces(ctx context.Context) ([]string, error) {
	labels, err := t.daemons()
	if err != nil {
		return nil, err
	}
	traces := slices.DeleteFunc(labels, func(label string) bool { return !strings.HasPrefix(label, formerPrefix) })
	for i, label := range traces {
		traces[i] = path.Join(daemonsDir, label+".plist")
	}
	there, err := t.exists(ctx, formerAgentDir)
	if err != nil {
		return nil, fmt.Errorf("looking at %s: %w", formerAgentDir, err)
	}
	if there {
		traces = append(traces, formerAgentDir)
	}
	program, err := t.formerProgram(ctx)
	if program {
		traces = append(traces, document.AgentLink)
	}
	return traces, err
}

// formerProgram reports that the first system's program is where ours has its link.
func (t *target) formerProgram(ctx context.Context) (bool, error) {
	info, err := t.Mac.Files.Stat(ctx, document.AgentLink)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", document.AgentLink, err)
	}
	return info.Target == "", nil
}
