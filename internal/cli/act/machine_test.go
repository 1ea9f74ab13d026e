package act

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// checked is the fleet with a health check, and Macs that are nodes.
func checked() *snapshot.Snapshot {
	s := fleet()
	for i := range 2 {
		s.Machines[i].Spec.ProviderID = "scw-applesilicon://fr-par-1/" + s.Hosts[i].Spec.ServerID
	}
	for i := range s.CoreMachines {
		s.CoreMachines[i].Labels = map[string]string{infrav1.FleetLabel: clitest.Builders}
		s.CoreMachines[i].Spec.ClusterName = "macfleet"
	}
	check := clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: clitest.Builders}}
	check.Spec.ClusterName = "macfleet"
	check.Spec.Selector.MatchLabels = map[string]string{infrav1.FleetLabel: clitest.Builders}
	s.HealthChecks = []clusterv1.MachineHealthCheck{check}
	s.Clusters = []clusterv1.Cluster{{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: "macfleet"}}}
	return s
}

// machineRecipes are the verbs for a Machine.
func machineRecipes() map[string]func(Mac) (Plan, error) {
	return map[string]func(Mac) (Plan, error){
		"restart-agent": RestartAgent{ID: "by-hand-1"}.Plan, "check": CheckNow{}.Plan, "pause": PauseMachine{}.Plan,
		"resume": PauseMachine{Resume: true}.Plan, "remediate": Remediate{}.Plan,
	}
}

// What each verb says and sends, for Machines of each phase.
func TestPlansForMachines(t *testing.T) {
	clitest.Golden(t, "machineplans.txt", screen.Screen{}, func(out io.Writer, _ screen.Screen) error {
		s := checked()
		for _, verb := range []string{"restart-agent", "check", "pause", "resume", "remediate"} {
			for i := range s.Machines {
				m := &s.Machines[i]
				fmt.Fprintf(out, "%s %s (%s)\n", verb, m.Name, m.Status.Phase)
				plan, err := machineRecipes()[verb](OfMachine(s, m))
				if err != nil {
					fmt.Fprintf(out, "  refused: %v\n", err)
					continue
				}
				describe(t, out, plan)
			}
		}
		return nil
	})
}

// What would come to nothing is refused with what is in the way.
func TestWhatIsInTheWayOfAMachinesVerb(t *testing.T) {
	now := metav1.NewTime(clitest.Now())
	annotated := func(key, value string) func(*snapshot.Snapshot) {
		return func(s *snapshot.Snapshot) { s.Machines[0].Annotations = map[string]string{key: value} }
	}
	for name, c := range map[string]struct {
		verb   string
		change func(*snapshot.Snapshot)
		says   string
	}{
		"restart, asked for": {"restart-agent", annotated(infrav1.RestartAgentAnnotation, "first"), "is to be restarted for first already"},
		"restart, another was made": {"restart-agent", func(s *snapshot.Snapshot) {
			annotated(infrav1.RestartAgentAnnotation, "first")(s)
			s.Machines[0].Status.Applied.Restart = "first"
		}, ""},
		"restart, this was made":      {"restart-agent", func(s *snapshot.Snapshot) { s.Machines[0].Status.Applied.Restart = "by-hand-1" }, "was restarted for by-hand-1 already"},
		"restart, of a paused one":    {"restart-agent", annotated(clusterv1.PausedAnnotation, ""), "nothing would be done: Machine macfleet-system/macfleet-builders-x7k2p-00001 is paused"},
		"restart, its Cluster paused": {"restart-agent", func(s *snapshot.Snapshot) { s.Clusters[0].Spec.Paused = ptr.To(true) }, "macfleet cluster resume macfleet -n macfleet-system"},
		"restart, hosts unseen":       {"restart-agent", func(s *snapshot.Snapshot) { s.Hosts = nil }, ""},
		"remediate, hosts unseen":     {"remediate", func(s *snapshot.Snapshot) { s.Hosts = nil }, ""},
		"restart, being deleted":      {"restart-agent", func(s *snapshot.Snapshot) { s.Machines[0].DeletionTimestamp = &now }, "is being deleted"},
		"restart, core's goes":        {"restart-agent", func(s *snapshot.Snapshot) { s.CoreMachines[0].DeletionTimestamp = &now }, "is being deleted"},
		"check, core's goes":          {"check", func(s *snapshot.Snapshot) { s.CoreMachines[0].DeletionTimestamp = &now }, "is being deleted"},
		"check, its Cluster goes":     {"check", func(s *snapshot.Snapshot) { s.Clusters[0].DeletionTimestamp = &now }, "or its Cluster is"},
		"check, not Ready": {"check", func(s *snapshot.Snapshot) {
			s.Machines[0].Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, "x", "", time.Hour)}
		}, "the Node of Machine"},
		"check, drifted": {"check", func(s *snapshot.Snapshot) { s.Machines[0].Status.Drift.Steps = []string{"sshd"} }, "found changes, which wait to be mended in their turn: sshd"},
		"check, asked for": {"check", func(s *snapshot.Snapshot) {
			s.Machines[0].Status.Drift.CheckedAt = ptr.To(metav1.NewTime(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
		}, "is asked for already"},
		"pause, paused":                {"pause", annotated(clusterv1.PausedAnnotation, "true"), "is paused already"},
		"pause, being deleted":         {"pause", func(s *snapshot.Snapshot) { s.Machines[0].DeletionTimestamp = &now }, "which a pause does not hold up"},
		"resume, paused":               {"resume", annotated(clusterv1.PausedAnnotation, "true"), ""},
		"remediate":                    {"remediate", func(*snapshot.Snapshot) {}, ""},
		"remediate, no check":          {"remediate", func(s *snapshot.Snapshot) { s.HealthChecks = nil }, "no health check that runs looks at it"},
		"remediate, another's check":   {"remediate", func(s *snapshot.Snapshot) { s.HealthChecks[0].Spec.Selector.MatchLabels = map[string]string{"a": "b"} }, "no health check"},
		"remediate, another Cluster's": {"remediate", func(s *snapshot.Snapshot) { s.HealthChecks[0].Spec.ClusterName = "another" }, "no health check"},
		"remediate, paused check": {"remediate", func(s *snapshot.Snapshot) {
			s.HealthChecks[0].Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		}, "no health check"},
		"remediate, unseen checks": {"remediate", func(s *snapshot.Snapshot) {
			s.Missing = []snapshot.Missing{{Kind: snapshot.HealthChecks, Why: "you may not"}}
		}, "cannot be told: you may not"},
		"remediate, too many unwell": {"remediate", func(s *snapshot.Snapshot) { s.HealthChecks[0].Status.RemediationsAllowed = ptr.To(int32(0)) }, "finds too many Machines unhealthy"},
		"remediate, in maintenance":  {"remediate", func(s *snapshot.Snapshot) { s.Hosts[0].Spec.Maintenance = &infrav1.Maintenance{Reason: "swap"} }, "is in maintenance (swap): end that first"},
		"remediate, asked for": {"remediate", func(s *snapshot.Snapshot) {
			s.CoreMachines[0].Annotations = map[string]string{clusterv1.RemediateMachineAnnotation: ""}
		}, "was asked for already"},
		"remediate, of a paused one": {"remediate", annotated(clusterv1.PausedAnnotation, ""), "is paused"},
	} {
		s := checked()
		c.change(s)
		_, err := machineRecipes()[c.verb](OfMachine(s, &s.Machines[0]))
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// A Machine of the same name in another namespace is not this one, nor are its Cluster and its check.
func TestAMachinesOwnMacIsFound(t *testing.T) {
	s := checked()
	other := s.Machines[0].DeepCopy()
	other.Namespace, other.UID, other.OwnerReferences, other.Spec.HostRef = "another", "another", nil, nil
	if mac := OfMachine(s, other); mac.Host != nil || mac.Core != nil || mac.Cluster != nil || len(mac.Checks) != 0 {
		t.Errorf("%+v", mac)
	}
	unseen := *s
	unseen.Hosts = nil
	if mac := OfMachine(&unseen, &s.Machines[0]); mac.Host != nil || len(mac.Guests) != 2 {
		t.Errorf("without sight of hosts: %+v", mac)
	}
	if mac := OfMachine(s, &s.Machines[0]); mac.Host != &s.Hosts[0] || mac.Core != &s.CoreMachines[0] || mac.Cluster != &s.Clusters[0] || len(mac.Checks) != 1 || len(mac.Guests) != 2 {
		t.Errorf("%+v", mac)
	}
}

// A pause is lifted by the very patch that is sent for it, and a restart is asked for once.
func TestMachinesAreChanged(t *testing.T) {
	s := checked()
	c := newFake(t, s, interceptor.Funcs{})
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: s.Machines[0].Name}}
	for _, verb := range []string{"pause", "resume", "restart-agent", "check"} {
		get(t, c, m)
		mac := OfMachine(s, &s.Machines[0])
		mac.Machine = m
		plan, err := machineRecipes()[verb](mac)
		if err == nil {
			_, err = plan.run(t.Context(), c, false)
		}
		if err != nil {
			t.Fatalf("%s: %v", verb, err)
		}
		get(t, c, m)
		_, paused := m.Annotations[clusterv1.PausedAnnotation]
		if paused != (verb == "pause") {
			t.Errorf("after %s: paused %t", verb, paused)
		}
	}
	if m.Annotations[infrav1.RestartAgentAnnotation] != "by-hand-1" || m.Status.Drift.CheckedAt == nil || m.Status.Drift.CheckedAt.Year() != 2000 {
		t.Errorf("%v, checked at %v", m.Annotations, m.Status.Drift.CheckedAt)
	}
	core := &clusterv1.Machine{}
	plan, err := Remediate{}.Plan(OfMachine(s, &s.Machines[0]))
	if err == nil {
		_, err = plan.run(t.Context(), c, false)
	}
	if err == nil {
		err = c.Get(t.Context(), client.ObjectKeyFromObject(m), core)
	}
	if _, asked := core.Annotations[clusterv1.RemediateMachineAnnotation]; err != nil || !asked {
		t.Errorf("core's Machine has %v: %v", core.Annotations, err)
	}
}

// The number that the Mac showed stands beside the question, so that nobody types another.
func TestAnotherSerialNumber(t *testing.T) {
	s := fleet()
	s.Machines[2].Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.BootstrappedCondition, metav1.ConditionFalse, infrav1.ReasonWrongHardware, "serial number C02NEW was shown", time.Minute)}
	plan, err := AcceptSerial{Serial: "C02NEW"}.Plan(MacOf(s, &s.Hosts[2]))
	if err != nil || !strings.Contains(strings.Join(plan.Says, "\n"), "says: serial number C02NEW was shown") {
		t.Errorf("%q: %v", plan.Says, err)
	}
	s.Hosts[2].Spec.AcceptSerial = "C02NEW"
	for serial, says := range map[string]string{"C02OLD": "is the Mac with serial number C02OLD already", "C02NEW": "is accepted for host"} {
		if _, err := (AcceptSerial{Serial: serial}).Plan(MacOf(s, &s.Hosts[2])); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", serial, err)
		}
	}
	if err := (AcceptSerial{}).Check(); err == nil {
		t.Error("none is needed")
	}
}

// A copy with the reference to the original's owner is none of that one's: no verb for the copy
// does anything to the original.
func TestACopyIsNotItsOriginalsOwners(t *testing.T) {
	s := copied()
	m := &s.Machines[3]
	m.OwnerReferences = s.Machines[0].OwnerReferences
	if mac := OfMachine(s, m); mac.Core != nil || len(mac.Checks) != 0 {
		t.Errorf("taken for the original: Core %v, checks %v", mac.Core, mac.Checks)
	}
	if plan, err := (Remediate{}).Plan(OfMachine(s, m)); err == nil {
		t.Errorf("remediate: %+v", plan)
	}
	if mac := OfMachine(s, &s.Machines[0]); mac.Core != &s.CoreMachines[0] {
		t.Error("the original lost its owner")
	}
}
