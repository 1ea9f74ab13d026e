package macostest

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

const sudoersDir = "/etc/sudoers.d"

// garbage in a sudoers file is what visudo refuses.
const garbage = "garbage"

type sudo struct{ m *Mac }

func (s sudo) Check(_ context.Context, name string) error {
	if data, ok := s.m.Get(name); ok && bytes.Contains(data, []byte(garbage)) {
		return &macos.SudoersError{Text: name + ":1:1: syntax error"}
	}
	return nil
}

// sudoers are the drop-ins in the order in which they are read.
func (m *Mac) sudoers() []string {
	var all []string
	for name := range m.files {
		if path.Dir(name) == sudoersDir {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// usage is what a program of ours exits with when it is given no document.
const usage = 64

// Try knows rules of the form "USER ALL=(WHO) [NO]PASSWD: COMMAND, COMMAND"; the
// last one that speaks of the command decides, as in sudo. Programs of ours want
// input and get none, all others succeed.
func (s sudo) Try(_ context.Context, user string, command ...string) (int, error) {
	exit := macos.SudoRefused
	for _, name := range s.m.sudoers() {
		data, _ := s.m.Get(name)
		for line := range strings.SplitSeq(string(data), "\n") {
			who, rule, _ := strings.Cut(line, " ")
			_, rule, _ = strings.Cut(rule, ") ")
			tag, commands, found := strings.Cut(rule, ": ")
			if !found || who != user || !covers(commands, strings.Join(command, " ")) {
				continue
			}
			switch {
			case tag != "NOPASSWD":
				exit = macos.SudoRefused
			case path.Base(command[0]) == "tart-kubelet":
				exit = usage
			default:
				exit = 0
			}
		}
	}
	return exit, nil
}

func covers(commands, command string) bool {
	for c := range strings.SplitSeq(commands, ",") {
		if c = strings.TrimSpace(c); c == "ALL" || c == command {
			return true
		}
	}
	return false
}
