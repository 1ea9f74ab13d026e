// Package takeover retires the first system on a Mac that is brought over from it
// (docs/migrate.md): its launchd jobs, its agent, and its rules in the packet filter.
// Nothing else in converge knows that system. The package may go on 2027-12-01, unless
// a fleet is yet to be brought over; with it go Host.TakeOver of the document and
// --take-over.
package takeover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/launchd"
	"github.com/macfleet/macfleet/internal/converge/step"
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

// part is a part of the first system: launchd jobs, and what they leave beside.
type part struct{ labels, files []string }

// companions are what it installs beside its agent and its firewall. What running
// guests read stays: /var/lib/tart-userdata.
func companions() part {
	return part{
		labels: []string{formerPrefix + "node-exporter", formerPrefix + "log-shipper", formerPrefix + "host-sensors"},
		files: []string{
			"/usr/local/bin/tuist-node-exporter-wrapper",
			"/usr/local/bin/tuist-log-shipper",
			"/usr/local/bin/tuist-host-sensors",
		},
	}
}

// Former is the first system on this Mac.
type Former struct{ *step.Env }

func (x Former) control() launchd.Control { return launchd.Control{Mac: x.Mac} }

// Step retires what the first system installed beside its agent and its firewall, under
// names that are known. What has another name is nobody's to remove: it is listed.
func (x Former) Step() step.Step {
	var foreign []string
	retired := companions()
	return step.Step{
		Name: "take-over",
		About: "Only where the Mac is taken over from the first system of this kind, or with `--take-over`: boots out and removes the launchd jobs " + strings.Join(retired.labels, ", ") +
			" and the files " + strings.Join(retired.files, ", ") + ". Its agent runs on until ours can be started: see `former-agent`. Its firewall stays until ours comes back after a boot: see `former-firewall`. Other launchd jobs are listed and left alone.",
		Undo: "None: install the first system again.",
		Check: func(ctx context.Context) ([]string, error) {
			var err error
			if foreign, err = x.foreignDaemons(); err != nil {
				return nil, err
			}
			return x.left(ctx, retired)
		},
		Act: func(ctx context.Context) error {
			if err := x.retire(ctx, retired.labels); err != nil {
				return err
			}
			return x.Remove(retired.files...)
		},
		Note: func() string {
			if len(foreign) == 0 {
				return ""
			}
			return "launch daemons of others, left alone: " + strings.Join(foreign, ", ")
		},
	}
}

// formerJob is a job of the first system. Only what launchd needs is known of it.
func formerJob(label string) launchd.Job {
	return launchd.Job{Name: label, Label: label, Plist: path.Join(daemonsDir, label+".plist")}
}

// left lists what is there of a part.
func (x Former) left(ctx context.Context, p part) ([]string, error) {
	var all []string
	paths := slices.Clone(p.files)
	for _, label := range p.labels {
		j := formerJob(label)
		paths = append(paths, j.Plist)
		_, loaded, err := x.control().Print(ctx, j.Label)
		if err != nil {
			return nil, err
		}
		if loaded {
			all = append(all, label+" is loaded")
		}
	}
	there, err := x.There(ctx, paths...)
	return append(all, there...), err
}

// retire boots jobs out and removes what defines them.
func (x Former) retire(ctx context.Context, labels []string) error {
	for _, label := range labels {
		j := formerJob(label)
		if err := x.bootOut(ctx, j); err != nil {
			return err
		}
		if err := x.Remove(j.Plist); err != nil {
			return err
		}
	}
	return nil
}

// bootOut makes launchd forget a job, if it knows it.
func (x Former) bootOut(ctx context.Context, j launchd.Job) error {
	_, loaded, err := x.control().Print(ctx, j.Label)
	if err != nil || !loaded {
		return err
	}
	if err := x.control().Unload(ctx, j); err != nil {
		return fmt.Errorf("stopping %s: %w", j.Label, err)
	}
	return nil
}

func (x Former) foreignDaemons() ([]string, error) {
	labels, err := x.daemons()
	if err != nil {
		return nil, err
	}
	known := slices.Concat(companions().labels, firewallPart().labels, []string{formerAgentLabel, document.AgentLabel, document.HostdLabel})
	return slices.DeleteFunc(labels, func(label string) bool { return slices.Contains(known, label) }), nil
}

// daemons are the labels of all launch daemons that are installed.
func (x Former) daemons() ([]string, error) {
	names, err := x.Mac.Files.List(daemonsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing %s: %w", daemonsDir, err)
	}
	labels := make([]string, 0, len(names))
	for _, name := range names {
		labels = append(labels, strings.TrimSuffix(name, ".plist"))
	}
	return labels, nil
}

// Traces are what the first system leaves on every Mac it had: its daemons,
// its agent's kubeconfig, and its agent's program where ours is a link.
func (x Former) Traces(ctx context.Context) ([]string, error) {
	labels, err := x.daemons()
	if err != nil {
		return nil, err
	}
	traces := slices.DeleteFunc(labels, func(label string) bool { return !strings.HasPrefix(label, formerPrefix) })
	for i, label := range traces {
		traces[i] = path.Join(daemonsDir, label+".plist")
	}
	there, err := x.Exists(ctx, formerAgentDir)
	if err != nil {
		return nil, err
	}
	if there {
		traces = append(traces, formerAgentDir)
	}
	program, err := x.Program(ctx)
	if program {
		traces = append(traces, document.AgentLink)
	}
	return traces, err
}

// Program reports that the first system's program is where ours has its link.
func (x Former) Program(ctx context.Context) (bool, error) {
	info, err := x.Mac.Files.Stat(ctx, document.AgentLink)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at %s: %w", document.AgentLink, err)
	}
	return info.Target == "", nil
}
