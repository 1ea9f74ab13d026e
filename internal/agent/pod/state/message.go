package state

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Bounds of a container's message, as a kubelet has them: of its file, and of the log
// that stands in for it.
const (
	MaxMessageBytes    = 4096
	maxLogMessageBytes = 2048
	maxLogMessageLines = 80
)

// messagePrefix names the command that reads a container's message.
const messagePrefix = "message-"

// MessageID is the command that reads the message of the command id.
func MessageID(id string) string { return messagePrefix + id }

// MessageArgv prints what a container left at its path, and makes room for the next
// container of the guest. A link stays, with nothing in what it leads to.
func MessageArgv(path string) []string {
	return []string{"/bin/sh", "-c", `tail -c 4096 "$1" 2>/dev/null && if [ -L "$1" ]; then : >"$1"; else rm -f "$1"; fi`, "sh", path}
}

// MessagePaths are those of the containers that are commands.
func MessagePaths(p *corev1.Pod) []string {
	var paths []string
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if IsCommand(c) && !slices.Contains(paths, c.TerminationMessagePath) {
			paths = append(paths, c.TerminationMessagePath)
		}
	}
	return paths
}

// LogText is the output in a log of the CRI, from which a first line that was cut is
// left out.
func LogText(log string) string {
	var text strings.Builder
	for line := range strings.Lines(log) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4) // <time> <stream> <tag> <text>
		if len(fields) < 4 {
			continue
		}
		text.WriteString(fields[3])
		if fields[2] == "F" {
			text.WriteByte('\n')
		}
	}
	return text.String()
}

// LogMessage is the end of a log that stands in for a message.
func LogMessage(text string) string {
	lines := slices.Collect(strings.Lines(text))
	text = strings.Join(lines[max(0, len(lines)-maxLogMessageLines):], "")
	return text[max(0, len(text)-maxLogMessageBytes):]
}

// MessageFromLog reports that the log stands in for the message of a container which
// failed and left none.
func MessageFromLog(c corev1.Container, e Exit) bool {
	return c.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError && e.Code != 0
}

// OfCommand reports an end that the container's own command came to.
func (e Exit) OfCommand() bool { return e.Reason == ReasonCompleted || e.Reason == reasonError }

// CommandOf is the command whose end this is.
func (e Exit) CommandOf() string {
	return cmp.Or(e.Of, MainID)
}

// FieldPath names the container of a command within its Pod, as events have it.
func FieldPath(p *corev1.Pod, id string) string {
	c, at := ContainerOf(p, id)
	if at.Init {
		return "spec.initContainers{" + c.Name + "}"
	}
	return "spec.containers{" + c.Name + "}"
}
