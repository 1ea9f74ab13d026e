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

const daemonsDir = "/Library/LaunchDaemons"

// formerLabels are the launchd jobs that older systems for the same purpose
// install. Two of them at once fight over the guests and over the packet filter.
func formerLabels() []string {
	return []string{
		"dev.tuist.tart-kubelet",
		"dev.tuist.pfctl-runners",
		"dev.tuist.node-exporter",
		"dev.tuist.log-shipper",
		"dev.tuist.host-sensors",
	}
}

// formerFiles are what they leave beside. The lines in /etc/pf.conf and the live
// rules are the firewall step's.
func formerFiles() []string {
	return []string{
		"/etc/pf.anchors/tuist.runners",
		"/etc/pf.anchors/tuist.sshguard",
		"/etc/tart-kubelet",
		"/usr/local/bin/tuist-pf-vmnat",
		"/usr/local/bin/tuist-pf-sshguard",
		"/usr/local/bin/tuist-node-exporter-wrapper",
		"/usr/local/bin/tuist-log-shipper",
		"/usr/local/bin/tuist-host-sensors",
	}
}

// takeOver retires what an older system installed under names that are known.
// What has another name is nobody's to remove: it is listed.
func (t *target) takeOver() step {
	var foreign []string
	return step{
		name: "take-over",
		about: "Only with `--take-over`: boots out and removes the launchd jobs " + strings.Join(formerLabels(), ", ") +
			" and the files " + strings.Join(formerFiles(), ", ") + " of older systems. Other launchd jobs are listed and left alone.",
		undo: "None: install the older system again.",
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

// formerJob is a job of an older system. Only what launchd needs is known of it.
func formerJob(label string) job {
	return job{name: label, label: label, plist: path.Join(daemonsDir, label+".plist")}
}

// former lists what is there of older systems.
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
		if _, loaded, err := t.printJob(ctx, j); err != nil {
			return err
		} else if loaded {
			if err := t.unload(ctx, j); err != nil {
				return fmt.Errorf("retiring %s: %w", label, err)
			}
		}
		if err := t.remove(j.plist); err != nil {
			return err
		}
	}
	return t.remove(formerFiles()...)
}

func (t *target) foreignDaemons() ([]string, error) {
	names, err := t.Mac.Files.List(daemonsDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing %s: %w", daemonsDir, err)
	}
	known := append(formerLabels(), document.AgentLabel, document.HostdLabel)
	var all []string
	for _, name := range names {
		if label := strings.TrimSuffix(name, ".plist"); !slices.Contains(known, label) {
			all = append(all, label)
		}
	}
	return all, nil
}
