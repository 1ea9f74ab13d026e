// Package pmset models the power management of a Mac on mains power and the
// pmset command. Where the settings are stored between boots, and the sleep
// itself, is left to the caller.
package pmset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const (
	rcUsage = 64 // EX_USAGE
	// rcNotRoot is EX_NOPERM.
	rcNotRoot = 77
)

// stock are the settings of a delivered Mac mini.
func stock() map[string]int {
	return map[string]int{
		"sleep": 1, "displaysleep": 10, "disksleep": 10, "womp": 1, "autorestart": 0, "powernap": 1,
		"networkoversleep": 0, "ttyskeepawake": 1, "standby": 0, "tcpkeepalive": 1, "lowpowermode": 0,
	}
}

// Options configure a Power.
type Options struct {
	// Changed are the settings that differ from a delivered Mac's.
	Changed map[string]int
	// Save keeps them; it is called for each change.
	Save func(map[string]int) error
	// Refuses makes changes print a complaint, do nothing and exit 0; nil
	// means no.
	Refuses func() bool
}

// Power is the power management of one boot.
type Power struct {
	o       Options
	mu      sync.Mutex
	changed map[string]int
}

// New returns the power management with the settings that were saved.
func New(o Options) *Power {
	changed := maps.Clone(o.Changed)
	if changed == nil {
		changed = map[string]int{}
	}
	return &Power{o: o, changed: changed}
}

// Pmset runs the pmset command with args (without its name) for a user.
func (p *Power) Pmset(uid int, args []string) wire.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch strings.Join(args, " ") {
	case "-g":
		return wire.Answer{Stdout: "System-wide power settings:\nCurrently in use:\n" + p.list()}
	case "-g custom":
		return wire.Answer{Stdout: "AC Power:\n" + p.list()}
	case "-g assertions":
		return wire.Answer{Stdout: assertions()}
	}
	if len(args) < 3 || len(args)%2 == 0 || (args[0] != "-a" && args[0] != "-c") {
		what := "pmset " + strings.Join(args, " ")
		return wire.Answer{RC: rcUsage, Stderr: "pmset: not modelled: " + what + "\n", Unmodelled: what}
	}
	if uid != wire.RootUID {
		return wire.Answer{RC: rcNotRoot, Stderr: "'pmset' must be run as root...\n"}
	}
	return p.set(args[1:])
}

func (p *Power) set(pairs []string) wire.Answer {
	next := maps.Clone(p.changed)
	known := stock()
	for i := 0; i < len(pairs); i += 2 {
		n, err := strconv.Atoi(pairs[i+1])
		if _, ok := known[pairs[i]]; !ok || err != nil || n < 0 {
			return wire.Answer{RC: rcUsage, Stdout: "Usage: pmset <options>\n"}
		}
		next[pairs[i]] = n
	}
	if p.o.Refuses != nil && p.o.Refuses() {
		return wire.Answer{Stdout: "Warning: Idle sleep timings for \"AC Power\" may not behave as expected.\nError: Unable to set settings\n"}
	}
	p.changed = next
	if p.o.Save != nil {
		if err := p.o.Save(maps.Clone(next)); err != nil {
			return wire.Answer{RC: 1, Stderr: fmt.Sprintf("pmset: %v\n", err)}
		}
	}
	return wire.Answer{}
}

func (p *Power) list() string {
	values := stock()
	maps.Copy(values, p.changed)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, " %-20s %d\n", name, values[name])
	}
	return b.String()
}

func assertions() string {
	var b strings.Builder
	b.WriteString("Assertion status system-wide:\n")
	for _, name := range []string{
		"BackgroundTask", "PreventUserIdleDisplaySleep", "PreventSystemSleep",
		"PreventUserIdleSystemSleep", "NetworkClientActive",
	} {
		fmt.Fprintf(&b, "   %-30s 0\n", name)
	}
	b.WriteString("No kernel assertions.\n")
	return b.String()
}
