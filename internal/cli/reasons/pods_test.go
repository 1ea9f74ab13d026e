package reasons

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// said is a reason of a Pod as the agent's code spells it: a constant, or one that is returned.
var said = regexp.MustCompile(`(?m)(?:\b[rR]eason[A-Za-z]*\s+=|return) "((?:[A-Z][a-z]+){2,}|Error|Evicted)"`)

// events are reasons of events alone.
var events = []string{"FailedToRetrieveImagePullSecret", "ProbeWarning"}

// Each reason that the agent gives a Pod has its row, and says what comes next.
func TestEachReasonOfAPodIsExplained(t *testing.T) {
	book, found := Read(), 0
	for _, reason := range slices.Concat(saidOfPods(t), []string{"OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "ImagePullBackOff", "CreateContainerError", "Unschedulable"}) {
		if slices.Contains(events, reason) {
			continue
		}
		found++
		if e, is := book.Find(reason, OfPods); !is || e.Means == "" || e.Next == "" {
			t.Errorf("docs/operate/reasons.md: why a Pod is %s: %v %+v", reason, is, e)
		}
	}
	if found < 20 {
		t.Errorf("%d reasons: the search is broken", found)
	}
}

func saidOfPods(t *testing.T) []string {
	t.Helper()
	var all []string
	agent := filepath.Join("..", "..", "agent")
	for _, dir := range []string{filepath.Join(agent, "pod", "state"), filepath.Join(agent, "pod", "admission"), filepath.Join(agent, "pod", "env"), filepath.Join(agent, "image"), filepath.Join(agent, "guard")} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, match := range said.FindAllStringSubmatch(string(text), -1) {
				all = append(all, match[1])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}
