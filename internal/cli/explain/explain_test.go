package explain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

func TestStories(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	for i := range s.Hosts {
		h := &s.Hosts[i]
		clitest.Golden(t, fmt.Sprintf("host-%d-%s.txt", i+1, h.Status.Phase), screen.Screen{}, Host(s, book, h).Write)
	}
	for i := range s.Machines {
		m := &s.Machines[i]
		clitest.Golden(t, fmt.Sprintf("machine-%d-%s.txt", i+1, m.Status.Phase), screen.Screen{}, Machine(s, book, m).Write)
	}
	clitest.Golden(t, "profile.txt", screen.Screen{}, Profile(s, book, &s.Profiles[0]).Write)
	clitest.Golden(t, "cluster.txt", screen.Screen{}, Cluster(s, book, &s.Zones[0]).Write)
	clitest.Golden(t, "pod-waits.txt", screen.Screen{}, Pod(s, book, &s.Pods[0]).Write)
	clitest.Golden(t, "host-40.txt", screen.Screen{Width: 40}, Host(s, book, &s.Hosts[3]).Write)
	clitest.Golden(t, "host-colour.txt", screen.Screen{Width: 120, Colour: true}, Host(s, book, &s.Hosts[3]).Write)
}

// Each command of the book bears the names of the story's objects.
func TestCommandsCanBeTyped(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	var stories []Story
	for i := range s.Hosts {
		stories = append(stories, Host(s, book, &s.Hosts[i]))
	}
	for i := range s.Machines {
		stories = append(stories, Machine(s, book, &s.Machines[i]))
	}
	stories = append(stories, Profile(s, book, &s.Profiles[0]), Pod(s, book, &s.Pods[0]))
	seen := 0
	for _, story := range stories {
		for _, p := range story.Points {
			for _, command := range p.Commands {
				seen++
				if strings.ContainsAny(command, "$<") {
					t.Errorf("%s %s: %s: %q has places without names", story.Kind, story.Name, p.Reason, command)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no commands: the search is broken")
	}
}

func point(t *testing.T, story Story, reason string) Point {
	t.Helper()
	at := slices.IndexFunc(story.Points, func(p Point) bool { return p.Reason == reason })
	if at < 0 {
		t.Fatalf("%s tells nothing of %s: %+v", story.Name, reason, story.Points)
	}
	return story.Points[at]
}

func TestWhenTheNextThingHappens(t *testing.T) {
	in := func(d time.Duration) time.Time { return clitest.Now().Add(d) }
	s, book := clitest.Fleet(), reasons.Read()
	failed := &s.Machines[1]
	failed.Spec.ProfileRef = nil // its rollout is halted
	failed.Status.Update = infrav1.UpdateStatus{Failures: 3, LastFailedAt: ptr.To(clitest.Ago(3 * time.Minute))}
	draining := clitest.Machine(7, "Releasing", clitest.Condition(infrav1.ReleasedCondition, metav1.ConditionFalse, infrav1.ReasonDraining, "2 Pods are left", time.Minute))
	draining.DeletionTimestamp = ptr.To(clitest.Ago(2 * time.Minute))
	core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: draining.Namespace, Name: draining.Name, DeletionTimestamp: draining.DeletionTimestamp}}
	core.Spec.Deletion.NodeDrainTimeoutSeconds = ptr.To(int32(600))
	s.CoreMachines = []clusterv1.Machine{core}
	mended := clitest.Machine(8, "NotReady", clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeNotReady, "", time.Minute))
	s.Remediations = []infrav1.ScalewayAppleSiliconRemediation{{
		ObjectMeta: metav1.ObjectMeta{Namespace: mended.Namespace, Name: mended.Name},
		Status: infrav1.ScalewayAppleSiliconRemediationStatus{
			Step: infrav1.ReasonRebooting, StepStartedAt: ptr.To(metav1.NewMicroTime(in(-5 * time.Minute))),
			Conditions: []metav1.Condition{clitest.Condition(infrav1.RemediatedCondition, metav1.ConditionFalse, infrav1.ReasonRebooting, "", time.Minute)},
		},
	}}
	for name, c := range map[string]struct {
		story  Story
		reason string
		at     time.Time
	}{
		"a failed change backs off": {Machine(s, book, failed), infrav1.ReasonUpdateFailed, in(time.Minute)},
		"a drain has a limit":       {Machine(s, book, &draining), infrav1.ReasonDraining, in(8 * time.Minute)},
		"a step of a remediation":   {Machine(s, book, &mended), infrav1.ReasonRebooting, in(10 * time.Minute)},
		"a quarantine ends":         {Host(s, book, &s.Hosts[4]), "Quarantined", in(3 * time.Hour)},
		"a wipe takes a while":      {Host(s, book, &s.Hosts[6]), "Wiping", in(15 * time.Minute)},
		"a halt ends":               {Profile(s, book, &s.Profiles[0]), infrav1.ReasonCanaryFailed, in(27 * time.Minute)},
	} {
		if p := point(t, c.story, c.reason); p.NextAt == nil || !p.NextAt.Equal(c.at) {
			t.Errorf("%s: next %q at %v, want %s", name, p.Next, p.NextAt, c.at)
		}
	}
}

// While a rollout is halted or paused nothing is tried, whatever a Mac's own back-off says;
// the halt counts from the last failure.
func TestNothingIsTriedWhileARolloutStandsStill(t *testing.T) {
	const revision = "aa461e465251"
	for name, c := range map[string]struct {
		change func(*infrav1.MacNodeProfile, *infrav1.ScalewayAppleSiliconMachine)
		says   string
		at     *time.Time
	}{
		"halted":  {func(*infrav1.MacNodeProfile, *infrav1.ScalewayAppleSiliconMachine) {}, "nothing while its rollout is halted", ptr.To(clitest.Now().Add(29 * time.Minute))},
		"paused":  {func(p *infrav1.MacNodeProfile, _ *infrav1.ScalewayAppleSiliconMachine) { p.Spec.Rollout.Paused = true }, "paused", nil},
		"goes on": {func(p *infrav1.MacNodeProfile, _ *infrav1.ScalewayAppleSiliconMachine) { p.Status.Conditions = nil }, "it is tried again", ptr.To(clitest.Now())},
		"a Mac that is only mended": {func(_ *infrav1.MacNodeProfile, m *infrav1.ScalewayAppleSiliconMachine) {
			m.Status.Applied.Revision = revision
		}, "it is tried again", ptr.To(clitest.Now())},
	} {
		s := clitest.Fleet()
		m, p := &s.Machines[1], &s.Profiles[0]
		m.Status.Update = infrav1.UpdateStatus{Revision: revision, Failures: 1, LastFailedAt: ptr.To(clitest.Ago(time.Minute))}
		c.change(p, m)
		told := point(t, Machine(s, reasons.Read(), m), infrav1.ReasonUpdateFailed)
		if !strings.Contains(told.Next, c.says) || (c.at == nil) != (told.NextAt == nil) || c.at != nil && !told.NextAt.Equal(*c.at) {
			t.Errorf("%s: next %q at %v", name, told.Next, told.NextAt)
		}
		if name != "halted" {
			continue
		}
		halt := point(t, Profile(s, reasons.Read(), p), infrav1.ReasonCanaryFailed)
		if !halt.NextAt.Equal(*c.at) || !slices.Contains(halt.Commands, "macfleet rollout undo "+p.Name+" -n "+p.Namespace) {
			t.Errorf("the halt: %+v", halt)
		}
	}
}

// A first failure as a network may have it waits for no guest: no drain hastens it.
func TestAFailedDownloadAsksForNoDrain(t *testing.T) {
	s := clitest.Fleet()
	m := &s.Machines[1]
	s.Profiles[0].Status.Conditions = nil
	m.Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.UpToDateCondition, metav1.ConditionFalse, infrav1.ReasonHeld, "put off at step tart (retry): 404", time.Minute)}
	for drain, update := range map[bool]infrav1.UpdateStatus{
		false: {RetriedAt: ptr.To(clitest.Ago(time.Minute)), HeldAt: ptr.To(clitest.Ago(time.Minute))},
		true:  {RetriedAt: ptr.To(clitest.Ago(time.Hour)), HeldAt: ptr.To(clitest.Ago(time.Minute))},
	} {
		m.Status.Update = update
		p := point(t, Machine(s, reasons.Read(), m), infrav1.ReasonHeld)
		if got := strings.Contains(strings.Join(p.Commands, " "), "drain"); got != drain || !p.NextAt.Equal(clitest.Now().Add(4*time.Minute)) {
			t.Errorf("%+v", p)
		}
	}
}

// A dead Mac's story says who mends it, and how a person does.
func TestTheStoryOfADeadMac(t *testing.T) {
	s := clitest.Fleet()
	m := &s.Machines[0]
	m.Status.Phase = "Unreachable"
	m.Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeUnreachable, "", time.Hour)}
	s.CoreMachines = []clusterv1.Machine{{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}}
	for name, story := range map[string]Story{"machine": Machine(s, reasons.Read(), m), "host": Host(s, reasons.Read(), &s.Hosts[0])} {
		p := point(t, story, infrav1.ReasonNodeUnreachable)
		want := "macfleet host reboot " + s.Hosts[0].Name + " --reason 'not heard of'"
		if !slices.Contains(p.Commands, want) || p.Next != "nothing, until somebody acts: no health check watches it" {
			t.Errorf("%s: next %q, type %q", name, p.Next, p.Commands)
		}
	}
}

// The story of a cluster has what its namespace's other stories end in, and whether anybody
// works on it.
func TestTheStoryOfACluster(t *testing.T) {
	s := clitest.Fleet()
	zone := &s.Zones[0]
	zone.Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.ReadyCondition, metav1.ConditionTrue, "Ready", "", time.Hour)}
	if story := Cluster(s, reasons.Read(), zone); len(story.Points) != 1 || !story.Points[0].Healthy {
		t.Errorf("a cluster that is well: %+v", story.Points)
	}
	of := clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: zone.Namespace, Name: "named-otherwise"}}
	of.Spec.InfrastructureRef.Name, of.Spec.ControlPlaneRef.Name, of.Spec.Paused = zone.Name, "plane", ptr.To(true)
	s.Clusters = []clusterv1.Cluster{of}
	s.ControlPlanes = []controlplanev1.ExternalControlPlane{{
		ObjectMeta: metav1.ObjectMeta{Namespace: zone.Namespace, Name: "plane"},
		Status:     controlplanev1.ExternalControlPlaneStatus{Conditions: []metav1.Condition{clitest.Condition("KubeconfigReady", metav1.ConditionFalse, "Away", "no token", time.Minute)}},
	}}
	s.Leases = []coordinationv1.Lease{{ObjectMeta: metav1.ObjectMeta{Namespace: zone.Namespace, CreationTimestamp: clitest.Ago(time.Hour)}}}
	story := Cluster(s, reasons.Read(), zone)
	for reason, about := range map[string]string{"NoManager": "manager in " + zone.Namespace, infrav1.PausedCondition: "cluster named-otherwise", "Away": "controlplane plane"} {
		if p := point(t, story, reason); p.About != about {
			t.Errorf("%s is told of %q", reason, p.About)
		}
	}
	if p := point(t, ControlPlane(s, reasons.Read(), &s.ControlPlanes[0]), "Away"); p.Says != "no token" {
		t.Errorf("the control plane: %+v", p)
	}
}

// A server that the vendor has not delivered yet is waited for, and no fault of anybody's.
func TestAnUndeliveredOrderWaits(t *testing.T) {
	h := clitest.Host(1, infrav1.HostClaimed, clitest.Condition(infrav1.AvailableCondition, metav1.ConditionFalse, "Claimed", "", time.Hour),
		clitest.Condition(host.CredentialsStagedCondition, metav1.ConditionFalse, infrav1.ReasonNotDelivered, "the vendor has not delivered the server yet", time.Hour))
	h.Spec.Record.Ordered, h.Status.Server.Delivered, h.Status.Server.Status = true, false, "starting"
	h.CreationTimestamp = clitest.Ago(7 * time.Minute)
	h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: clitest.Namespace, Name: "m"}
	story := Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h)
	if len(story.Points) != 1 || story.Points[0].Says != "the vendor has not delivered it yet" || !story.Points[0].Since.Equal(h.CreationTimestamp.Time) || len(story.Points[0].Commands) > 0 {
		t.Errorf("tells %+v", story.Points)
	}
	if next := story.Points[0].Next; !strings.Contains(next, "when the vendor delivers it") {
		t.Errorf("next %q", next)
	}
}

// A Pod's deletionTimestamp is when its grace is over, and not since when it ends.
func TestSinceWhenAPodEnds(t *testing.T) {
	s := clitest.Fleet()
	pod := s.Pods[0]
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(clitest.Now().Add(50*time.Second))), ptr.To(int64(60))
	p := point(t, Pod(s, reasons.Read(), &pod), "Terminating")
	if !p.Since.Equal(clitest.Now().Add(-10*time.Second)) || !p.NextAt.Equal(pod.DeletionTimestamp.Time) {
		t.Errorf("since %v, over at %v", p.Since, p.NextAt)
	}
}

// What is given back waits for the vendor's floor, and for nobody.
func TestAMacThatIsGivenBackWaitsForNobody(t *testing.T) {
	h := clitest.Host(1, infrav1.HostRetiring, clitest.Condition("Retired", metav1.ConditionFalse, infrav1.ReasonRetiring, "", time.Minute))
	host.GiveBack(&h, "token", clitest.Now())
	story := Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), &h)
	for _, p := range story.Points {
		if strings.Contains(p.Next, "until somebody acts") {
			t.Errorf("%s: next %q", p.Reason, p.Next)
		}
	}
	if !slices.Contains(story.Is, "given back to the vendor by a person; no Machine has it") {
		t.Errorf("is %q", story.Is)
	}
}

// What another name holds does not go on by itself; what nobody knows the past of does.
func TestWhatKeepsAMacFromThePool(t *testing.T) {
	held := clitest.Host(1, infrav1.HostWiping, clitest.Condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther, "", time.Minute))
	host.GiveBack(&held, "token", clitest.Now())
	held.Spec.Record.Wipe.RequestedAt = &metav1.MicroTime{Time: clitest.Now()}
	unseen := clitest.Host(2, infrav1.HostDirty, clitest.Condition(infrav1.AvailableCondition, metav1.ConditionFalse, host.ReasonNeverSeenWiped, "", time.Minute))
	for _, c := range []struct {
		host       *infrav1.ScalewayAppleSiliconHost
		next       string
		forAPerson bool
	}{
		{&held, "until somebody acts", true},
		{&unseen, "it goes on when", false},
	} {
		p := point(t, Host(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read(), c.host), string(c.host.Status.Phase))
		if !strings.Contains(p.Next, c.next) || p.NextAt != nil || (p.You != "") && !c.forAPerson {
			t.Errorf("%s: %+v", c.host.Status.Phase, p)
		}
	}
}

// A reboot that waits is told of a Mac in use, too.
func TestARebootThatWaitsIsTold(t *testing.T) {
	s := clitest.Fleet()
	h := &s.Hosts[0]
	h.Spec.Reboot = &infrav1.RebootRequest{ID: "1"}
	h.Status.Conditions = append(h.Status.Conditions, clitest.Condition(host.RebootedCondition, metav1.ConditionFalse, host.ReasonRebootWaiting, "the server is locked", time.Hour))
	if p := point(t, Machine(s, reasons.Read(), &s.Machines[0]), host.ReasonRebootWaiting); !strings.Contains(p.Says, "locked") {
		t.Errorf("%+v", p)
	}
}

// One attempt is one, and a failure that a person has to mend is not tried harder.
func TestFailedAttempts(t *testing.T) {
	s := clitest.Fleet()
	m := &s.Machines[2]
	m.Status.Bootstrap.Attempts = 1
	if p := point(t, Machine(s, reasons.Read(), m), infrav1.ReasonBootstrapFailed); !strings.Contains(p.Next, "1 attempt failed. After more") {
		t.Errorf("next %q", p.Next)
	}
	m.Status.Conditions[1].Message = "step dial failed (human): the disk is locked"
	p := point(t, Machine(s, reasons.Read(), m), infrav1.ReasonBootstrapFailed)
	if !strings.Contains(p.Next, "before somebody mends") || !slices.Equal(p.Commands, []string{"macfleet machine doctor " + m.Name + " -n " + m.Namespace}) {
		t.Errorf("next %q, type %q", p.Next, p.Commands)
	}
}

// No reboot and no wipe is promised where recovery makes none.
func TestWhereRecoveryMakesNothing(t *testing.T) {
	const retry, human = "step dial failed (retry): refused", "step network failed (human): the disk is locked"
	for name, c := range map[string]struct {
		message, providerID, next string
	}{
		"a Mac that was no node yet":    {retry, "", "After more of these recovery reboots the Mac once"},
		"one that was rebooted":         {retry, "", "Recovery has rebooted the Mac; after more of these it has it wiped"},
		"a Mac that was a node":         {retry, "scaleway://fr-par-1/1", "recovery neither reboots nor wipes it; a health check, where there is one, does"},
		"of which a person mends it":    {human, "scaleway://fr-par-1/1", "before somebody mends"},
		"what is waited for":            {"step join failed (wait): refused", "", "neither a reboot nor a wipe"},
		"what is waited for, of a node": {"step join failed (wait): refused", "scaleway://fr-par-1/1", "neither a reboot nor a wipe"},
		"a mistake of ours":             {"step converge failed (bug): usage", "", "neither a reboot nor a wipe"},
	} {
		s := clitest.Fleet()
		m := &s.Machines[2]
		m.Status.Bootstrap.Attempts, m.Spec.ProviderID, m.Status.Conditions[1].Message = 1, c.providerID, c.message
		m.Status.Bootstrap.RebootIssued = name == "one that was rebooted"
		if p := point(t, Machine(s, reasons.Read(), m), infrav1.ReasonBootstrapFailed); !strings.Contains(p.Next, c.next) {
			t.Errorf("%s: next %q", name, p.Next)
		}
	}
}

// Attempts go on where recovery may do nothing; what is only held back asks for nobody, and
// types nothing that wipes the Mac.
func TestExhaustedIsNotTheEnd(t *testing.T) {
	hold := host.Block{Reason: infrav1.ReasonStormGuard, Message: "2 of 8 hosts were wiped"}
	for name, c := range map[string]struct {
		message, next, you string
		commands           int
	}{
		"forbidden": {"the host is in maintenance; last failure: x", "it is tried again with growing pauses; 8 attempts failed", "mend the Mac", 1},
		"held back": {"8 attempts failed; " + hold.HoldsWipe() + "; last failure: x", "goes on by itself when the hold ends", "nothing", 0},
	} {
		s := clitest.Fleet()
		m := &s.Machines[2]
		m.Status.Bootstrap.Attempts = 8
		m.Status.Conditions[1].Reason, m.Status.Conditions[1].Message = infrav1.ReasonBootstrapExhausted, c.message
		p := point(t, Machine(s, reasons.Read(), m), infrav1.ReasonBootstrapExhausted)
		if !strings.Contains(p.Next, c.next) || strings.Contains(p.Next, "until somebody acts") || !strings.Contains(p.You, c.you) || len(p.Commands) != c.commands {
			t.Errorf("%s: next %q, you %q, type %q", name, p.Next, p.You, p.Commands)
		}
	}
}

// A link that leads out of the folder of the page is printed as where it leads.
func TestLinksAreWhole(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	s.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: s.Machines[0].Name}}}
	s.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "AgentHasDiskPressure"}}
	if p := point(t, Machine(s, book, &s.Machines[0]), "AgentHasDiskPressure"); p.Read != bookSite+"pods.md#when-a-mac-is-short" {
		t.Errorf("read %s", p.Read)
	}
}

// What a Mac's Node says is part of its Machine's story, and of its Pods'.
func TestNodesAreTold(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.Machines[0].Name}, Spec: corev1.NodeSpec{Unschedulable: true}}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, Reason: "AgentHasDiskPressure"},
		{Type: "GUISessionReady", Status: corev1.ConditionFalse, Reason: "KeychainLocked"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "AgentHasSufficientPID"},
	}
	s.Nodes = []corev1.Node{node}
	pod := clitest.PendingPod(1)
	pod.Spec.NodeName = node.Name
	for _, story := range []Story{Machine(s, book, &s.Machines[0]), Pod(s, book, &pod)} {
		point(t, story, "Cordoned")
		if p := point(t, story, "KeychainLocked"); !strings.Contains(p.You, "log in at the Mac") {
			t.Errorf("%s: KeychainLocked: %+v", story.Kind, p)
		}
		point(t, story, "AgentHasDiskPressure")
		if slices.ContainsFunc(story.Points, func(p Point) bool { return p.Reason == "AgentHasSufficientPID" }) {
			t.Errorf("%s tells of what is well", story.Kind)
		}
	}
}

// A Mac that idles and stays is paid for.
func TestAHoldIsTold(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	m := &s.Machines[0]
	core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
	core.Status.NodeRef.Name = m.Name
	s.CoreMachines = []clusterv1.Machine{core}
	s.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Annotations: map[string]string{infrav1.HeldUntilAnnotation: "2026-11-27T08:00:00Z"}}}}
	if is := strings.Join(Machine(s, book, m).Is, "\n"); !strings.Contains(is, "may not remove it before 2026-11-27T08:00:00Z") {
		t.Errorf("it is %s", is)
	}
}

// Cluster API cordons the Node of a Machine that it deletes, and the Machine says Running
// all the while: nobody is told to undo that.
func TestADrainIsTold(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	m := &s.Machines[0]
	core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, DeletionTimestamp: ptr.To(clitest.Ago(time.Minute))}}
	core.Status.Conditions = []metav1.Condition{clitest.Condition(clusterv1.MachineDeletingCondition, metav1.ConditionTrue, "DrainingNode", "Drain not completed yet: Pod ci/build-1", time.Minute)}
	s.CoreMachines = []clusterv1.Machine{core}
	s.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Spec: corev1.NodeSpec{Unschedulable: true}}}
	story := Machine(s, book, m)
	p := point(t, story, "DrainingNode")
	if p.Healthy || !strings.Contains(p.Says, "ci/build-1") || !strings.Contains(p.Next, "the drain ends") {
		t.Errorf("the drain: %+v", p)
	}
	if slices.ContainsFunc(story.Points, func(p Point) bool { return p.Reason == "Cordoned" }) {
		t.Error("the cordon of a drain is taken for somebody's")
	}
}

func TestNamesAreFound(t *testing.T) {
	s := clitest.Fleet()
	for typed, want := range map[string]string{
		s.Hosts[1].Name:                        s.Hosts[1].Name,
		"fr-par-1-00000002":                    s.Hosts[1].Name,
		"00000002":                             s.Hosts[1].Name,
		s.Hosts[1].Status.Server.Name:          s.Hosts[1].Name,
		"00000002-0000-4000-8000-000000000000": s.Hosts[1].Name,
		"fr-par":                               "host fr-par is one of several: fr-par-1-00000001-",
		"fr-par-1-00000002-0000-4000-8000-000000000009": "did you mean fr-par-1-00000002-0000-4000-8000-000000000000",
		"nonsense": "there is no host nonsense",
	} {
		got := ""
		if h, err := FindHost(s.Hosts, typed, false); err != nil {
			got = err.Error()
		} else {
			got = h.Name
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s finds %s, want %s", typed, got, want)
		}
	}
	if _, err := FindHost(s.Hosts, "fr-par-1-00000002", true); err == nil || !strings.Contains(err.Error(), "did you mean "+s.Hosts[1].Name) {
		t.Errorf("who changes something names it whole: %v", err)
	}
	if m, err := Find(s.Machines, "machine", clitest.Namespace+"/"+s.Machines[3].Name); err != nil || m.Name != s.Machines[3].Name {
		t.Errorf("with its namespace: %v", err)
	}
	other := s.Machines[3]
	other.Namespace = "other"
	if _, err := Find(append(s.Machines, other), "machine", other.Name); err == nil || !strings.Contains(err.Error(), "other/"+other.Name) {
		t.Errorf("in two namespaces: %v", err)
	}
}

// A Mac that is being set up tells of that alone, and not that it is no Node yet.
func TestAMacThatIsBeingSetUpMissesNoNode(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	m := &s.Machines[2]
	told := func(status metav1.ConditionStatus) bool {
		m.Status.Conditions = append(m.Status.Conditions[:2:2], clitest.Condition(infrav1.NodeReadyCondition, status, infrav1.ReasonWaitingForNode, "", time.Minute))
		story := Machine(s, book, m)
		point(t, story, infrav1.ReasonBootstrapFailed)
		return slices.ContainsFunc(story.Points, func(p Point) bool { return p.Reason == infrav1.ReasonWaitingForNode })
	}
	if told(metav1.ConditionUnknown) {
		t.Error("the Node is missed before the Mac is set up")
	}
	if !told(metav1.ConditionFalse) {
		t.Error("the Node is not missed after the Mac was set up")
	}
}

// A condition's time is that of its status: where the reason's own is on record, that is told.
func TestHowLongWhatLasts(t *testing.T) {
	s, book := clitest.Fleet(), reasons.Read()
	micro := func(d time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(clitest.Ago(d).Time)) }
	s.Hosts[2].Spec.Record.Bootstrap = infrav1.BootstrapRecord{ClaimToken: "token", FirstFailedAt: ptr.To(clitest.Ago(5 * time.Minute))}
	s.Machines[1].Status.Update = infrav1.UpdateStatus{Failures: 2, LastFailedAt: ptr.To(clitest.Ago(time.Minute))}
	s.Hosts[6].Status.Conditions[1].LastTransitionTime = clitest.Ago(time.Hour)
	releasing, moved := clitest.Host(8, infrav1.HostReleasing), clitest.Host(9, infrav1.HostHandedOver)
	releasing.Spec.Release = &infrav1.Release{RequestedAt: *micro(7 * time.Minute)}
	moved.Spec.Record.HandedOverAt = micro(6 * time.Minute)
	for head, story := range map[string]Story{
		"Bootstrapped: BootstrapFailed   for 5m, since":                     Machine(s, book, &s.Machines[2]),
		"UpToDate: UpdateFailed   not as it should be for 3m, since":        Machine(s, book, &s.Machines[1]),
		"HostClaimed: NoAvailableHost   not as it should be for 10m, since": Machine(s, book, &s.Machines[3]),
		"Wiped: Reinstalling   for 4m, since":                               Host(s, book, &s.Hosts[6]),
		"Releasing   for 7m, since":                                         Host(s, book, &releasing),
		"HandedOver   for 6m, since":                                        Host(s, book, &moved),
	} {
		var text strings.Builder
		if err := story.Write(&text, screen.Screen{}); err != nil || !strings.Contains(text.String(), "\n"+head) {
			t.Errorf("%s %s does not say %q, %v:\n%s", story.Kind, story.Name, head, err, &text)
		}
	}
}
