package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someReport = `<testsuites><testsuite>
<testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
<testcase name="[It] [sig-node] Pods should run [Conformance] [sig-node, Conformance]" status="passed"></testcase>
<testcase name="[It] [sig-node] Pods should end [sig-node]" status="failed"><failure message="" type="failed">[FAILED] timed out&#xA;at x</failure></testcase>
<testcase name="[It] [sig-node] Pods should share [sig-node]" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] [sig-node] Pods should wait [sig-node]" status="skipped"><skipped message="skipped - no such node"></skipped></testcase>
<testcase name="[It] [sig-node] Pods should hide [sig-node]" status="skipped"><skipped message="skipped"></skipped></testcase>
<testcase name="[It] [sig-apps] Jobs should share [sig-apps]" status="skipped"><skipped message="skipped"></skipped></testcase>
</testsuite></testsuites>`

func TestResultsOfAReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), reportFile)
	if err := os.WriteFile(path, []byte(someReport), 0o600); err != nil {
		t.Fatal(err)
	}
	list := specs{Skip: []skipped{{Match: "should share", Reason: "a VM is one"}}}
	found, err := readResults(path, list, `\[sig-node\] Pods`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range sorted(append(found, found...)) {
		got = append(got, strings.Join([]string{shortName(r.Name), string(r.Outcome), r.Why}, "|"))
	}
	// One that another expression is for, or the suite's labels leave out, is none of ours.
	want := []string{
		"[sig-node] Pods should end|failed|timed out", "[sig-node] Pods should run|passed|",
		"[sig-node] Pods should share|skipped|a VM is one", "[sig-node] Pods should wait|skipped|no such node",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

func TestAListWithoutReasonsIsRefused(t *testing.T) {
	if _, err := parseSpecs(specsFile); err != nil {
		t.Error(err)
	}
	for _, list := range []string{"skip: [{match: x}]", "skip: [{match: '(', reason: y}]", "focus: ['']", "fokus: [x]"} {
		if _, err := parseSpecs([]byte(list)); err == nil {
			t.Errorf("%s is taken", list)
		}
	}
}

// Of the specs about a sidecar's probes those are skipped whose sidecar has another image than the Pod's container.
func TestSidecarsOfAnotherImageAreSkipped(t *testing.T) {
	list, err := parseSpecs(specsFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, skipped := range map[string]bool{
		"should be restarted startup probe fails":                                              true,
		"should *not* be restarted by liveness probe because startup probe delays it":          true,
		"should be ready immediately after startupProbe succeeds":                              true,
		"should override timeoutGracePeriodSeconds when LivenessProbe field is set":            true,
		"should be restarted with an exec liveness probe with timeout":                         true,
		"should be restarted with a /healthz http liveness probe":                              false,
		"should *not* be restarted with a GRPC liveness probe":                                 false,
		"should have monotonically increasing restart count":                                   false,
		"with readiness probe should not be ready before initial delay and never restart":      false,
		"should mark readiness on pods to false and disable liveness probes while terminating": false,
	} {
		why := list.reasonOf("[sig-node] [NodeConformance] [FeatureGate:SidecarContainers] Probing restartable init container " + name)
		if strings.Contains(why, "different images") != skipped {
			t.Errorf("%s: %q", name, why)
		}
	}
}

// A run of a few specs changes their rows, and no other.
func TestRowsOfOthersStay(t *testing.T) {
	written := table([]result{
		{Name: "[sig-node] A should a|b [x]", Outcome: left, Why: "no <y>"}, {Name: "[sig-node] B [x]", Outcome: failed, Why: "late"}, {Name: "[sig-node] C", Outcome: passed}, {Name: "[sig-node] D", Outcome: failed, Why: "late"},
	})
	list := specs{Focus: []string{`\[sig-node\]`}, Skip: []skipped{{Match: "D$", Reason: "it cannot"}}}
	got := table(merged("some text\n\n"+written, list, []result{{Name: "[sig-node] B [x]", Outcome: passed}, {Name: "[sig-apps] E", Outcome: passed}}))
	want := strings.Replace(strings.Replace(written, "failed: late", "passed", 1), "failed: late", "skipped: it cannot", 1)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}

// The same run has the same table, whatever ports were free.
func TestPortsOfARunAreNotTold(t *testing.T) {
	if got, want := firstLine("host \"https://127.0.0.1:33695\" is\n[FAILED]"), `host "https://127.0.0.1" is`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Who runs a few specs by their name is told which of them no whole run would have judged.
func TestSpecsBeyondTheListAreNamed(t *testing.T) {
	list := specs{Focus: []string{"Pods", "Jobs"}, Skip: []skipped{{Match: "share", Reason: "a VM is one"}}}
	got := list.extra([]result{
		{Name: "[sig-node] Pods run [x]", Outcome: passed},
		{Name: "[sig-node] Pods share [x]", Outcome: failed},
		{Name: "[sig-node] Nodes run [x]", Outcome: passed},
		{Name: "[sig-node] Nodes wait", Outcome: left, Why: "no such node"},
		{Name: "[sig-apps] Jobs share", Outcome: left, Why: "a VM is one"},
	})
	if d := cmp.Diff([]string{"[sig-node] Pods share: a VM is one", "[sig-node] Nodes run: not in the list"}, got); d != "" {
		t.Errorf("specs (-want +got):\n%s", d)
	}
}
