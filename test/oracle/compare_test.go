package oracle

import (
	"regexp"
	"slices"
	"strings"
)

// differ returns what is different between a kubelet's story and an agent's, both by these rules; empty: nothing.
func differ(kubelet, agent story, by []rule) string {
	k, a := normal(kubelet, by), normal(agent, by)
	k.Status, a.Status = bySteps(k.Status, a.Status)
	return lack("status", k.Status, a.Status) + lack("events", k.Events, a.Events)
}

// lack marks, in either side's order, what the other one does not tell.
func lack(of string, kubelet, agent []string) string {
	if slices.Equal(kubelet, agent) {
		return ""
	}
	said := of + " differ\n"
	for i, lines := range [][]string{kubelet, agent} {
		other := [][]string{agent, kubelet}[i]
		for _, line := range lines {
			if mark := "-+"[i : i+1]; !slices.Contains(other, line) {
				said += mark + " " + line + "\n"
			} else if i == 0 {
				said += "  " + line + "\n"
			}
		}
	}
	return said
}

// bySteps leaves out the statuses of one side that are on the way from one that both have told to the next: one writes
// down each step, and the other two at once. This is the rule "steps".
func bySteps(a, b []string) (ofA, ofB []string) {
	last := ""
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			last, a, b = a[0], a[1:], b[1:]
			ofA, ofB = append(ofA, last), append(ofB, last)
		case between(last, b[0], a[0], true):
			b = b[1:]
		case between(last, a[0], b[0], false):
			a = a[1:]
		default:
			return append(ofA, a...), append(ofB, b...)
		}
	}
	return append(ofA, a...), append(ofB, b...)
}

// between reports that a status says nothing but what that before it or that after it says, of each thing. agents: it is
// one of an agent, of which a kubelet that is late may have left out more.
func between(before, status, after string, agents bool) bool {
	known := append(strings.Split(before, " | "), strings.Split(after, " | ")...)
	for _, said := range strings.Split(status, " | ") {
		if !slices.Contains(known, said) && !follows.MatchString(said) && !passes(known, said, agents) {
			return false
		}
	}
	return true
}

// follows is of conditions that follow from the containers beside them.
var follows = regexp.MustCompile(`^(ContainersReady|Ready)=F( ContainersNotReady|$)|^Initialized=F ContainersNotInitialized`)

// passes reports of a container that its state is told as the one before the next, or is on the way to be ready: for a
// kubelet, between the success of its startup probe and that. It never is ready itself.
func passes(known []string, said string, agents bool) bool {
	name, state, container := strings.Cut(said, ": ")
	if !container {
		return false
	}
	of := name[:strings.Index(name, "#")+1]
	if slices.ContainsFunc(known, func(other string) bool {
		return strings.HasPrefix(other, of) && strings.HasSuffix(other, ", before: "+state)
	}) {
		return true
	}
	now, before, restarted := strings.Cut(state, ", ")
	if restarted {
		before = ", " + before
	}
	started := now == "running started" && slices.Contains(known, name+": running"+before)
	starts := now == "running started" || now == "running"
	return (started || agents && starts) && slices.Contains(known, name+": running ready started"+before)
}
