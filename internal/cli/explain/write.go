package explain

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/macfleet/macfleet/internal/cli/screen"
)

// Write writes the story for people.
func (s Story) Write(out io.Writer, sc screen.Screen) error {
	lines := []string{sc.Paint(s.Kind+" "+name(s.Namespace, s.Name), screen.Head)}
	for _, is := range s.Is {
		lines = append(lines, sc.Wrap(is, "  ")...)
	}
	for _, p := range s.Points {
		lines = append(append(lines, ""), p.lines(sc, s.At)...)
	}
	if len(s.Points) > 0 && allHealthy(s.Points) {
		lines = append(lines, "", "Nothing is wrong with it.")
	}
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

func name(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func allHealthy(points []Point) bool {
	for _, p := range points {
		if !p.Healthy {
			return false
		}
	}
	return true
}

// label is how wide the words before the texts are.
const label = 8

func (p Point) lines(sc screen.Screen, now time.Time) []string {
	lines := []string{sc.Paint(p.head(now), p.mood())}
	for _, text := range []struct{ label, value string }{
		{"says", p.Says}, {"means", p.Means}, {"next", p.next(now)}, {"you", p.You},
	} {
		if text.value == "" || p.Healthy && text.label == "you" {
			continue
		}
		wrapped := sc.Wrap(text.value, strings.Repeat(" ", label+2))
		wrapped[0] = "  " + text.label + wrapped[0][len(text.label)+2:]
		lines = append(lines, wrapped...)
	}
	for i, command := range p.Commands {
		lines = append(lines, labelled(i, "type", command))
	}
	if p.Read != "" && !p.Healthy {
		lines = append(lines, labelled(0, "read", p.Read))
	}
	return lines
}

// labelled is a line that is never broken: it is copied.
func labelled(i int, word, text string) string {
	if i > 0 {
		word = ""
	}
	return "  " + word + strings.Repeat(" ", label-len(word)) + text
}

func (p Point) head(now time.Time) string {
	head := p.Reason
	if p.Condition != "" {
		head = p.Condition + ": " + p.Reason
	}
	if p.About != "" {
		head = p.About + "   " + head
	}
	if p.Since != nil && !p.Since.IsZero() {
		head += fmt.Sprintf("   %s %s, since %s", p.Lasts(), duration.HumanDuration(now.Sub(*p.Since)), p.Since.UTC().Format(time.RFC3339))
	}
	return head
}

// Lasts are the words before how long it lasts: a condition's reason may have come up later
// than the condition ceased to be as it should be.
func (p Point) Lasts() string {
	if p.SinceOfCondition {
		return "not as it should be for"
	}
	return "for"
}

func (p Point) mood() screen.Mood {
	if p.Healthy {
		return screen.Good
	}
	return screen.Bad
}

// next is what comes, and how soon.
func (p Point) next(now time.Time) string {
	if p.NextAt == nil {
		return p.Next
	}
	when := "at " + p.NextAt.UTC().Format(time.RFC3339)
	if left := p.NextAt.Sub(now); left > 0 {
		when += ", in " + duration.HumanDuration(left)
	} else {
		when += ", which is over"
	}
	return strings.TrimPrefix(p.Next+": ", ": ") + when
}
