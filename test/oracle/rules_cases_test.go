package oracle

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	created = "Pending | ContainersReady=F ContainersNotReady containers with unready status: [main] | PodReadyToStartContainers=F | main#0: waits ContainerCreating"
	up      = "Running | ContainersReady=T | PodReadyToStartContainers=T | main#0: running ready started"
	over    = "Failed | ContainersReady=F PodFailed | PodReadyToStartContainers=F | main#0: Error 7"
	unrun   = "Pending | ContainersReady=F ContainersNotReady x | main#0: waits ImagePullBackOff"
	unknown = " | main#0: ContainerStatusUnknown 137"
)

func lines(l ...string) []string { return l }

// TestEachRuleIsNeeded: what a rule is for is the same by all of them, and not without it.
func TestEachRuleIsNeeded(t *testing.T) {
	for name, c := range map[string]struct{ kubelet, agent story }{
		"sandbox": {
			story{Status: lines(up, "Running | PodReadyToStartContainers=T | main#0: Error 7", "gone")},
			story{Status: lines(up, "Running | PodReadyToStartContainers=F | main#0: Error 7", "gone")},
		},
		"never-ran": {
			story{Status: lines(unrun, created, "Failed | ContainersReady=F ContainersNotReady x"+unknown)},
			story{Status: lines(unrun, "Failed | ContainersReady=F PodFailed"+unknown)},
		},
		"fresh-guest": {
			story{Status: lines("Running | first#0: Completed 0 ready | main#0: Error 7", "Running | first#0: Completed 0 ready | main#1: running, before: Error 7")},
			story{Status: lines(
				"Running | first#0: Completed 0 ready | main#0: Error 7",
				"Running | first#1: waits PodInitializing, before: Completed 0 | main#1: waits PodInitializing, before: Error 7",
				"Running | first#1: Completed 0 ready, before: Completed 0 | main#1: running, before: Error 7",
			)},
		},
		"hollow": {
			story{lines(up, up+" | PodResizeInProgress=T Error x", "gone"), lines("Warning ResizeError : x")},
			story{Status: lines(up, "gone")},
		},
		"one-guest": {
			story{Events: lines(
				"Normal Pulling spec.initContainers{first}: x", "Normal Pulled spec.initContainers{first}: x", "Normal Created spec.initContainers{first}: x", "Normal Started spec.initContainers{first}: x",
				"Normal Pulled spec.containers{main}: x", "Normal Created spec.containers{main}: x", "Normal Started spec.containers{main}: x",
			)},
			story{Events: lines(
				"Normal Pulled spec.containers{main}: y", "Normal Created spec.containers{main}: Created VM y", "Normal Started spec.containers{main}: Started VM y",
				"Normal Started spec.initContainers{first}: x", "Normal Started spec.containers{main}: x",
			)},
		},
		"inputs-first": {story{Events: lines("Normal Pulled spec.containers{main}: x", "Warning Failed y: z")}, story{Events: lines("Warning Failed y: z")}},
		"one-pull":     {story{}, story{Events: lines(`Normal Pulling spec.containers{main}: The pull of image "x" waits for the pull of "y" from the same registry`)}},
		"words":        {story{Events: lines("Normal Started spec.containers{main}: Container started")}, story{Events: lines("Normal Started spec.containers{main}: Started container main")}},
		"any-time":     {story{Events: lines("Normal Killing a: b", "Warning Unhealthy c: d")}, story{Events: lines("Warning Unhealthy c: d", "Normal Killing a: b")}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := differ(c.kubelet, c.agent, rules()); d != "" {
				t.Errorf("not the same:\n%s", d)
			}
			others := slices.DeleteFunc(rules(), func(r rule) bool { return r.name == name })
			if len(others) == len(rules()) || differ(c.kubelet, c.agent, others) == "" {
				t.Error("the same without the rule")
			}
		})
	}
}

// TestFaultsAreSeen: no rule hides what would be a fault of the agent.
func TestFaultsAreSeen(t *testing.T) {
	kubelet := story{
		lines(
			"Pending", created, "Running | ContainersReady=F ContainersNotReady x | PodReadyToStartContainers=T | first#0: Completed 0 ready | main#0: running started", up,
			"Running | ContainersReady=F ContainersNotReady x | main#0: Error 7", "Running | ContainersReady=T | PodReadyToStartContainers=T | main#1: running ready started, before: Error 7", over, "gone",
		),
		lines(
			"Normal Pulled spec.containers{main}: x", "Normal Created spec.containers{main}: x", "Normal Started spec.containers{main}: x",
			"Warning Failed spec.containers{main}: Error: ImagePullBackOff", "Warning Unhealthy spec.containers{main}: Readiness probe failed", "Normal Killing spec.containers{main}: Stopping container main",
		),
	}
	if d := differ(kubelet, kubelet, rules()); d != "" {
		t.Fatalf("it differs from itself:\n%s", d)
	}
	for name, c := range map[string]struct{ old, new string }{
		"wrong exit code":           {"main#0: Error 7", "main#0: Error 1"},
		"wrong last exit code":      {"before: Error 7", "before: Error 1"},
		"wrong phase at the end":    {"Failed | ", "Succeeded | "},
		"wrong reason of an end":    {"main#0: Error 7", "main#0: Completed 7"},
		"ready too early":           {"main#0: running started", "main#0: running ready started"},
		"Ready too early":           {"ContainersReady=F ContainersNotReady x | PodReadyToStartContainers=T", "ContainersReady=T | PodReadyToStartContainers=T"},
		"never ready":               {up, created},
		"a restart is not counted":  {"main#1: running", "main#0: running"},
		"a back-off too many":       {"main#0: Error 7", "main#0: waits CrashLoopBackOff, before: Error 7"},
		"a VM that is never up":     {"PodReadyToStartContainers=T", "PodReadyToStartContainers=F"},
		"an object that stays":      {"gone", ""},
		"no image":                  {"Normal Pulled spec.containers{main}: x", ""},
		"no Created":                {"Normal Created spec.containers{main}: x", ""},
		"no Started":                {"Normal Started spec.containers{main}: x", ""},
		"an event of the Pod alone": {"Warning Unhealthy spec.containers{main}", "Warning Unhealthy "},
		"another word of a kubelet": {"Error: ImagePullBackOff", "Error: it backs off"},
		"no Killing":                {"Normal Killing spec.containers{main}: Stopping container main", ""},
		"a Pod that fails silently": {over, ""},
	} {
		change := func(said []string) []string {
			said = each(func(line string) string { return strings.Replace(line, c.old, c.new, 1) })(said)
			return slices.DeleteFunc(said, func(line string) bool { return line == "" })
		}
		if differ(kubelet, story{change(kubelet.Status), change(kubelet.Events)}, rules()) == "" {
			t.Errorf("not seen: %s", name)
		}
	}
}

// TestEachRuleHasItsReason on the page.
func TestEachRuleHasItsReason(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "oracle.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(rules(), rule{name: "steps"}) {
		if !strings.Contains(string(page), "| "+r.name+" |") {
			t.Errorf("docs/oracle.md does not say why there is the rule %s", r.name)
		}
	}
}
