package oracle

import (
	"regexp"
	"slices"
	"strings"
)

// rule makes the same of what the two sides mean to tell differently. docs/oracle.md gives the reason of each, by its
// name; nothing else is made the same.
type rule struct {
	name string
	// status and events change what both sides tell; nil: the rule is about the other.
	status, events func(lines []string) []string
}

func rules() []rule {
	return []rule{
		{name: "hollow", status: each(withoutResize), events: drop(ofHollow)},
		{name: "sandbox", status: each(withoutSandbox)},
		{name: "never-ran", status: neverRan},
		{name: "fresh-guest", status: withoutRestarts},
		{name: "one-guest", events: oneGuest},
		{name: "inputs-first", events: inputsFirst},
		{name: "one-pull", events: drop(func(line string) bool { return strings.Contains(line, ": The pull of image ") })},
		{name: "words", events: each(withoutWords)},
		{name: "any-time", events: lastAnyTime},
	}
}

// normal is a story by rules.
func normal(s story, by []rule) story {
	for _, r := range by {
		if r.status != nil {
			s.Status = once(r.status(s.Status))
		}
		if r.events != nil {
			s.Events = once(r.events(s.Events))
		}
	}
	return s
}

func each(change func(string) string) func([]string) []string {
	return func(lines []string) []string {
		var changed []string
		for _, l := range lines {
			changed = append(changed, change(l))
		}
		return changed
	}
}

func drop(which func(string) bool) func([]string) []string {
	return func(lines []string) []string { return slices.DeleteFunc(slices.Clone(lines), which) }
}

// once leaves out what is told twice in a row.
func once(lines []string) []string { return slices.Compact(lines) }

func ended(line string) bool {
	return strings.HasPrefix(line, "Succeeded") || strings.HasPrefix(line, "Failed")
}

func runs(line string) bool { return strings.Contains(line, ": running") }

// withoutSandbox: while nothing runs, a kubelet has a sandbox, and a Mac no VM.
func withoutSandbox(line string) string {
	if ended(line) || runs(line) {
		return line
	}
	return strings.NewReplacer(" | PodReadyToStartContainers=F", "", " | PodReadyToStartContainers=T", "").Replace(line)
}

// neverRan: a kubelet's conditions of a Pod that was deleted before anything ran stay as they were, and why it waited is
// written over before.
func neverRan(lines []string) []string {
	i := slices.IndexFunc(lines, func(line string) bool { return ended(line) && strings.Contains(line, "ContainerStatusUnknown 137") })
	if i < 0 {
		return lines
	}
	lines = slices.Clone(lines)
	lines[i] = withoutReasons(lines[i], "PodFailed", "ContainersNotReady")
	if i >= 2 && strings.Contains(lines[i-1], "waits ContainerCreating") && strings.Contains(lines[i-2], ": waits ") {
		lines = slices.Delete(lines, i-1, i)
	}
	return lines
}

// withoutReasons leaves of the conditions about readiness that they are False for one of these reasons.
func withoutReasons(line string, reasons ...string) string {
	said := strings.Split(line, " | ")
	for i, s := range said {
		condition, why, _ := strings.Cut(s, " ")
		if (condition == "ContainersReady=F" || condition == "Ready=F") && slices.Contains(reasons, strings.Split(why, " ")[0]) {
			said[i] = condition
		}
	}
	return strings.Join(said, " | ")
}

// withoutRestarts: a Mac makes another guest for a container that runs again, in which init containers run again.
func withoutRestarts(lines []string) []string {
	lines = drop(func(line string) bool { return restarting.MatchString(line) })(lines)
	return each(func(line string) string { return again.ReplaceAllString(line, "$1#0: Completed 0 ready") })(lines)
}

var (
	restarting = regexp.MustCompile(`\| main#[1-9]\d*: waits (ContainerCreating|PodInitializing), before: `)
	again      = regexp.MustCompile(`\b(first|second)#[1-9]\d*: Completed 0 ready, before: Completed 0`)
)

// withoutResize: the hollow kubelet fails to read back what a Pod was given.
func withoutResize(line string) string { return resizing.ReplaceAllString(line, "") }

var resizing = regexp.MustCompile(` \| PodResizeInProgress=[^|]*[^| ]`)

// ofHollow are events that come of what the hollow kubelet has no cgroups and no images for.
func ofHollow(line string) bool {
	return strings.HasPrefix(line, "Warning ResizeError ") || strings.HasPrefix(line, "Normal ResizeCompleted ") ||
		strings.HasSuffix(line, "probe errored and resulted in unknown state: context canceled")
}

// oneGuest: all containers of a Pod run in one VM, of one image, that is pulled, made and started once.
func oneGuest(lines []string) []string {
	there := slices.ContainsFunc(lines, pulled)
	seen := map[string]bool{}
	var kept []string
	for _, line := range lines {
		if strings.Contains(line, ": Started VM ") || there && strings.HasPrefix(line, "Normal Pulling ") {
			continue
		}
		if pulled(line) || strings.HasPrefix(line, "Normal Created ") {
			line = strings.Join(strings.Fields(line)[:2], " ")
			if seen[line] {
				continue
			}
			seen[line] = true
		}
		kept = append(kept, line)
	}
	return kept
}

// inputsFirst: a Mac pulls an image, of tens of GB, once it has what the Pod's env comes from.
func inputsFirst(lines []string) []string {
	if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "Normal Started ") }) {
		return lines
	}
	return drop(func(line string) bool { return line == "Normal Pulled" })(lines)
}

func pulled(line string) bool { return strings.HasPrefix(line, "Normal Pulled ") }

// withoutWords: what is done to a VM is told in words of its own, and errors are those of tart and of this agent.
func withoutWords(line string) string {
	event, _, _ := strings.Cut(line, ": ")
	for _, reason := range []string{"Normal Started ", "Warning BackOff ", "Warning Failed "} {
		if strings.HasPrefix(line, reason) && !strings.Contains(line, ": Error: ErrImage") && !strings.Contains(line, ": Error: ImagePull") {
			return event
		}
	}
	return line
}

// lastAnyTime: when probes fail and containers are stopped does not hang on what else is told.
func lastAnyTime(lines []string) []string {
	any := func(line string) bool {
		return strings.Contains(line, " Unhealthy ") || strings.Contains(line, " Killing ")
	}
	late := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !any(line) })
	slices.Sort(late)
	return append(drop(any)(lines), late...)
}
