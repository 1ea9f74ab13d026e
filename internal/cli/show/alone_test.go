package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

// silent is a fleet of one Mac that is not heard of for so long.
func silent(ago time.Duration) *snapshot.Snapshot {
	m := clitest.Machine(1, "Unreachable", clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeUnreachable, "Node x is not heard of", ago))
	h := clitest.Host(1, infrav1.HostInUse)
	clitest.Claim(&h, &m)
	core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: map[string]string{"tuist.dev/fleet": "a"}}}
	core.Spec.ClusterName = "macfleet"
	return &snapshot.Snapshot{
		At: clitest.Now(), Hosts: []infrav1.ScalewayAppleSiliconHost{h}, Machines: []infrav1.ScalewayAppleSiliconMachine{m},
		CoreMachines: []clusterv1.Machine{core},
	}
}

func healthCheck(fleet string) clusterv1.MachineHealthCheck {
	check := clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "check"}}
	check.Spec.ClusterName = "macfleet"
	check.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"tuist.dev/fleet": fleet}}
	return check
}

// A dead Mac needs a person exactly where nobody else mends it.
func TestADeadMacThatNobodyMends(t *testing.T) {
	for name, c := range map[string]struct {
		ago    time.Duration
		change func(*snapshot.Snapshot)
		person bool
		says   string
	}{
		"no health check":       {time.Hour, func(*snapshot.Snapshot) {}, true, "no health check watches it"},
		"another fleet's":       {time.Hour, func(s *snapshot.Snapshot) { s.HealthChecks = []clusterv1.MachineHealthCheck{healthCheck("b")} }, true, "no health check watches it"},
		"its health check":      {time.Hour, func(s *snapshot.Snapshot) { s.HealthChecks = []clusterv1.MachineHealthCheck{healthCheck("a")} }, false, ""},
		"it may come back yet":  {time.Minute, func(*snapshot.Snapshot) {}, false, ""},
		"a reboot is asked for": {time.Hour, func(s *snapshot.Snapshot) { s.Hosts[0].Spec.Reboot = &infrav1.RebootRequest{ID: "1"} }, false, ""},
		"a reboot waits for long": {time.Hour, func(s *snapshot.Snapshot) {
			s.Hosts[0].Spec.Reboot = &infrav1.RebootRequest{ID: "1"}
			s.Hosts[0].Status.Conditions = append(s.Hosts[0].Status.Conditions, clitest.Condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootWaiting, "the server is locked", time.Hour))
		}, true, "its reboot waits: the server is locked"},
		"its check is paused": {time.Hour, func(s *snapshot.Snapshot) {
			check := healthCheck("a")
			check.Annotations = map[string]string{clusterv1.PausedAnnotation: "true"}
			s.HealthChecks = []clusterv1.MachineHealthCheck{check}
		}, true, "the health check check is paused"},
		"it was just rebooted": {time.Hour, func(s *snapshot.Snapshot) { s.Hosts[0].Status.LastReboot.At = metav1.NewMicroTime(clitest.Now()) }, false, ""},
		"a person is at it":    {time.Hour, func(s *snapshot.Snapshot) { s.Hosts[0].Spec.Maintenance = &infrav1.Maintenance{Reason: "swap"} }, false, ""},
		"it is being deleted":  {time.Hour, func(s *snapshot.Snapshot) { s.CoreMachines[0].DeletionTimestamp = ptr.To(clitest.Ago(time.Minute)) }, false, ""},
		"checks may not be read": {time.Hour, func(s *snapshot.Snapshot) {
			s.Missing = []snapshot.Missing{{Kind: snapshot.HealthChecks, Why: "you may not list them"}}
		}, false, ""},
		"its check holds all of it": {time.Hour, func(s *snapshot.Snapshot) {
			check := healthCheck("a")
			check.Status.Conditions = []metav1.Condition{clitest.Condition(clusterv1.MachineHealthCheckRemediationAllowedCondition, metav1.ConditionFalse, "TooManyUnhealthy", "5 of 6", time.Hour)}
			s.HealthChecks = []clusterv1.MachineHealthCheck{check}
		}, true, "the health check check does nothing: TooManyUnhealthy: 5 of 6"},
	} {
		t.Run(name, func(t *testing.T) {
			s := silent(c.ago)
			c.change(s)
			status := StatusOf(s, reasons.Read())
			var items []Item
			for _, i := range status.Person {
				if i.Kind == "machine" {
					items = append(items, i)
				}
			}
			if got := len(items) == 1; got != c.person {
				t.Fatalf("needs a person: %v, want %v: %+v", got, c.person, status)
			}
			if !c.person {
				return
			}
			if want := "macfleet host reboot " + s.Hosts[0].Name + " --reason 'not heard of'"; items[0].Command != want || !strings.HasSuffix(items[0].Message, c.says) {
				t.Errorf("%q, type %q", items[0].Message, items[0].Command)
			}
		})
	}
}

// A Node that was deleted comes back within minutes, but not that of a dead Mac.
func TestANodeThatIsMissedForLong(t *testing.T) {
	for ago, want := range map[time.Duration]bool{time.Minute: false, time.Hour: true} {
		s := silent(ago)
		s.Machines[0].Status.Conditions[0].Reason = infrav1.ReasonNodeMissing
		person := StatusOf(s, reasons.Read()).Person
		if got := len(person) == 1; got != want {
			t.Errorf("missed for %s: needs a person %v", ago, got)
		}
		if want && person[0].Command != Doctor(&s.Machines[0]) {
			t.Errorf("type %q", person[0].Command)
		}
	}
}

// What to type is never cut, and of many it is said of some.
func TestCommandsAreWholeAndFew(t *testing.T) {
	s := silent(time.Hour)
	status := StatusOf(s, reasons.Read())
	for range 4 {
		status.Person = append(status.Person, status.Person[0])
	}
	clitest.Golden(t, "status-dead.txt", screen.Screen{Width: 80}, status.Write)
}

// A storm is one line of the cluster and one of its Macs, and what else there is can be read.
func TestAStormLeavesTheRestToBeRead(t *testing.T) {
	const storm = "StormGuard: 2 of 8 hosts in zone fr-par-1 were wiped or rebooted by recovery within the hour; 1 may be"
	s := clitest.Fleet()
	s.Zones[0].Status.Conditions = append(s.Zones[0].Status.Conditions, clitest.Condition("Other", metav1.ConditionFalse, "Other", "another trouble", time.Hour))
	for n := 20; n < 28; n++ {
		said := fmt.Sprintf("Node %d is not heard of since 11:%d", n, n)
		m := clitest.Machine(n, "Unreachable", clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeUnreachable, said, time.Duration(n)*time.Minute))
		s.Machines = append(s.Machines, m)
		s.Remediations = append(s.Remediations, infrav1.ScalewayAppleSiliconRemediation{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name},
			Status:     infrav1.ScalewayAppleSiliconRemediationStatus{Conditions: []metav1.Condition{clitest.Condition(infrav1.RemediatedCondition, metav1.ConditionFalse, infrav1.ReasonHeld, storm, time.Minute)}},
		})
	}
	s.Zones[0].Status.Conditions[1] = clitest.Condition(infrav1.DestructionHeldCondition, metav1.ConditionTrue, infrav1.ReasonStormGuard, storm, 20*time.Minute)
	status := StatusOf(s, reasons.Read())
	clitest.Golden(t, "status-storm.txt", screen.Screen{Width: 120}, status.Write)
	table, err := Machines(s, false, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Rows {
		if why := row[len(row)-1].Text; strings.Contains(why, "hosts in zone") {
			t.Errorf("a Mac repeats the zone's count: %s", why)
		}
	}
	// Programs have them one by one.
	if got := slices.IndexFunc(status.Waits, func(i Item) bool { return strings.HasSuffix(i.Name, "00027") }); got < 0 {
		t.Errorf("the last Mac is not among %+v", status.Waits)
	}
}

// A failure that only a person can mend needs one, whatever else it is.
func TestFailuresOfTheClassHuman(t *testing.T) {
	for class, want := range map[string]bool{"human": true, "retry": false} {
		for kind, reason := range map[string]string{infrav1.BootstrappedCondition: infrav1.ReasonBootstrapFailed, infrav1.UpToDateCondition: infrav1.ReasonUpdateFailed} {
			s := silent(time.Hour)
			s.Machines[0].Status.Conditions = []metav1.Condition{clitest.Condition(kind, metav1.ConditionFalse, reason, "step tart failed ("+class+"): no such file", time.Minute)}
			status := StatusOf(s, reasons.Read())
			if got := len(status.Person) == 1; got != want {
				t.Fatalf("%s, class %s: needs a person %v, want %v", reason, class, got, want)
			}
			command := ""
			if want {
				command = "macfleet machine doctor " + s.Machines[0].Name + " -n " + clitest.Namespace
			}
			if got := append(status.Person, status.Waits...)[0].Command; got != command {
				t.Errorf("%s, class %s: type %q, want %q", reason, class, got, command)
			}
		}
	}
}

// What recovery may not do needs a person; what is held back goes on when the hold ends.
func TestAHeldWipeNeedsNoPerson(t *testing.T) {
	hold := host.Block{Reason: infrav1.ReasonStormGuard, Message: "2 of 8 hosts in zone fr-par-1 were wiped"}
	for message, want := range map[string]bool{
		"the host is in maintenance; last failure: x":                  true,
		"8 attempts failed; " + hold.HoldsWipe() + "; last failure: x": false,
	} {
		s := silent(time.Hour)
		s.Machines[0].Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.BootstrappedCondition, metav1.ConditionFalse, infrav1.ReasonBootstrapExhausted, message, time.Minute)}
		status := StatusOf(s, reasons.Read())
		if got := len(status.Person) == 1; got != want || len(status.Person)+len(status.Waits) != 1 {
			t.Errorf("%s: person %+v, waits %+v", message, status.Person, status.Waits)
		}
	}
}

// A Machine that Cluster API drains does not read as one that runs.
func TestADrainIsTold(t *testing.T) {
	s := silent(time.Hour)
	s.Machines[0].Status.Phase, s.Machines[0].Status.Conditions = "Running", nil
	core := &s.CoreMachines[0]
	core.DeletionTimestamp = ptr.To(clitest.Ago(12 * time.Minute))
	core.Status.Conditions = []metav1.Condition{clitest.Condition(clusterv1.MachineDeletingCondition, metav1.ConditionTrue, clusterv1.MachineDeletingDrainingNodeReason, "Drain not completed yet:\n* Pod ci/build-7: not ended", time.Minute)}
	waits := StatusOf(s, reasons.Read()).Waits
	if len(waits) != 1 || waits[0].Reason != "DrainingNode" || !waits[0].Since.Equal(clitest.Now().Add(-12*time.Minute)) || !strings.Contains(waits[0].Message, "ci/build-7") {
		t.Errorf("waits %+v", waits)
	}
	clitest.Golden(t, "machines-drained.txt", screen.Screen{}, func(out io.Writer, sc screen.Screen) error {
		table, err := Machines(s, false, "")
		if err != nil {
			return err
		}
		return table.Write(out, sc)
	})
}

// Who waits for a Mac is told where to look, once for all of them, and by name where there is
// no Mac to look at.
func TestWhatToTypeWithoutAMac(t *testing.T) {
	for name, c := range map[string]struct {
		hosts int
		want  string
	}{
		"the Macs are others'": {1, "Type: macfleet hosts\n\n"},
		"there is none":        {0, "Type: macfleet explain machine macfleet-builders-x7k2p-00002 -n macfleet-system\nand likewise for 2 more\n\n"},
	} {
		s := silent(time.Hour)
		s.Hosts, s.Machines = s.Hosts[:c.hosts], nil
		for n := range 3 {
			s.Machines = append(s.Machines, clitest.Machine(2+n, "Pending", clitest.Condition(infrav1.HostClaimedCondition, metav1.ConditionFalse, infrav1.ReasonNoAvailableHost, "no available host", time.Minute)))
		}
		var text strings.Builder
		if err := StatusOf(s, reasons.Read()).Write(&text, screen.Screen{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), c.want) {
			t.Errorf("%s: want %q in\n%s", name, c.want, text.String())
		}
	}
}
