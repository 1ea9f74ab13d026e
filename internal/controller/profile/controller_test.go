package profile

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/rollout"
)

func three(revision string) []client.Object {
	return join(running("a", "builders", revision), running("b", "builders", revision), running("c", "builders", revision))
}

// One Mac after the other is changed; the next begins once the one before has been
// well for the soak.
func TestTurnsGoAround(t *testing.T) {
	w := newWorld(t, append(three("old"), builders())...)
	for _, name := range []string{"a", "b", "c"} {
		w.visit("builders")
		w.visit("builders")
		if got := w.turns(); !slices.Equal(got, []string{name}) {
			t.Fatalf("it is the turn of %q, want %s", got, name)
		}
		if got := w.machine(name).Annotations[infrav1.UpdateAnnotation]; got != revision() {
			t.Fatalf("the turn is for %.12s, want the revision", got)
		}
		w.pass(time.Minute)
		w.prove(name, revision())
		result := w.visit("builders")
		if got := w.turns(); !slices.Equal(got, []string{name}) || result.RequeueAfter != rollout.DefaultSoak {
			t.Fatalf("after the proof it is the turn of %q, and it is looked at again in %s; want %s in its soak", got, result.RequeueAfter, name)
		}
		w.pass(rollout.DefaultSoak)
	}
	w.visit("builders")
	w.visit("builders")
	if got := w.turns(); len(got) != 0 {
		t.Errorf("it is still the turn of %q", got)
	}
	p := w.profile()
	if s := p.Status; s.Machines != 3 || s.Available != 3 || s.Updated != 3 || s.ObservedGeneration != 7 || s.Revision != revision() {
		t.Errorf("status = %+v", s)
	}
	for _, kind := range []string{infrav1.ReadyCondition, infrav1.RolledOutCondition} {
		if c := w.condition(kind); c.Status != metav1.ConditionTrue || c.ObservedGeneration != 7 {
			t.Errorf("%s = %+v", kind, c)
		}
	}
}

func TestAQuietProfileWritesNothing(t *testing.T) {
	for name, revision := range map[string]string{"at rest": revision(), "in a turn": "old"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(three(revision), builders())...)
			w.visit("builders")
			w.visit("builders")
			before := w.countWrites()
			for range 3 {
				w.visit("builders")
			}
			if w.countWrites() != before {
				t.Errorf("wrote %q", w.writes[before:])
			}
		})
	}
}

// lagging is a cache that has not seen any update permit yet.
type lagging struct{ client.Client }

func (c lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	if machines, is := list.(*infrav1.ScalewayAppleSiliconMachineList); is {
		for i := range machines.Items {
			delete(machines.Items[i].Annotations, infrav1.UpdateAnnotation)
		}
	}
	return err
}

func TestACacheThatLagsBeginsNoSecondTurn(t *testing.T) {
	w := newWorld(t, append(three("old"), builders())...)
	w.visit("builders")
	w.r.Client = lagging{w.client}
	for range 3 {
		w.visit("builders")
	}
	if got := w.turns(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it is the turn of %q, want a's only", got)
	}
}

// Machines that name no profile follow the built-in one, without an object.
func TestTheBuiltInProfileRollsOutToo(t *testing.T) {
	w := newWorld(t, join(running("a", "", "old"), running("b", "", "old"), running("c", "builders", revision()))...)
	w.visit("")
	if got := w.turns(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it is the turn of %q, want a's", got)
	}
	if got := ofMachine(t.Context(), w.machine("a")); len(got) != 1 || got[0].Name != "" || got[0].Namespace != namespace {
		t.Errorf("Machine a wakes %v", got)
	}
}

// A Mac that takes no Pods after a change is no Mac that is well, although its Node is Ready.
func TestACanaryWhoseDiskRunsShortHalts(t *testing.T) {
	w := newWorld(t, append(three("old"), builders())...)
	w.visit("builders")
	w.pass(time.Minute)
	w.prove("a", revision())
	w.pass(30 * time.Second)
	node := w.node("a")
	before := node.DeepCopy()
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now()),
	})
	if err := w.client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if !nodeChanges().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: w.node("a")}) {
		t.Error("nobody looks again when a disk runs short")
	}
	w.pass(2 * time.Minute) // its soak is over
	w.visit("builders")
	if got := w.turns(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it is the turn of %q, want a's still", got)
	}
	w.pass(15 * time.Minute)
	w.visit("builders")
	if got := w.turns(); len(got) != 0 {
		t.Errorf("it is the turn of %q after the canary failed", got)
	}
	if c := w.condition(infrav1.HaltedCondition); c.Reason != infrav1.ReasonCanaryFailed || !strings.Contains(c.Message, "failed on a (its disk is short)") {
		t.Errorf("Halted = %+v", c)
	}
}

func TestAFailedCanaryHalts(t *testing.T) {
	w := newWorld(t, append(three("old"), builders())...)
	w.visit("builders")
	w.pass(time.Minute)
	at := metav1.NewTime(w.clock.Now())
	w.status("a", func(s *infrav1.ScalewayAppleSiliconMachineStatus) {
		s.Update = infrav1.UpdateStatus{Revision: revision(), Failures: 1, LastFailedAt: &at}
	})
	for range 3 {
		w.visit("builders")
	}
	if got := w.turns(); len(got) != 0 {
		t.Errorf("it is the turn of %q after the canary failed", got)
	}
	for kind, reason := range map[string]string{
		infrav1.HaltedCondition: infrav1.ReasonCanaryFailed, infrav1.RolledOutCondition: infrav1.ReasonRolloutHalted, infrav1.ReadyCondition: infrav1.ReasonRolloutHalted,
	} {
		if c := w.condition(kind); c.Reason != reason || !strings.Contains(c.Message, "failed on a") || !strings.Contains(c.Message, "2026-03-01T12:31:00Z") {
			t.Errorf("%s = %+v, want %s with the Mac and the end of the halt", kind, c, reason)
		}
	}
	if n := len(w.events.Events); n != 1 {
		t.Fatalf("%d events, want one", n)
	}
	if told := <-w.events.Events; !strings.Contains(told, infrav1.ReasonRolloutHalted) {
		t.Errorf("event = %q", told)
	}
	p := w.profile()
	p.Spec.Node.Labels = map[string]infrav1.LabelValue{"team": "ios"}
	w.update(p)
	w.visit("builders")
	if got := w.turns(); len(got) != 1 {
		t.Errorf("another revision is not tried: %q", got)
	}
}

// A guest that dies in an update permit is laid to its charge; one that ends is not.
func TestAGuestLostInATurnHalts(t *testing.T) {
	for name, c := range map[string]struct {
		status corev1.ContainerState
		halts  bool
	}{
		"died":  {corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: guestLost}}, true},
		"ended": {corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}}, false},
		"runs":  {corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "guest", UID: types.UID("guest-1")},
				Spec:       corev1.PodSpec{NodeName: "a"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
			}
			w := newWorld(t, append(three("old"), builders(), pod)...)
			w.visit("builders")
			if got := rollout.LastPermit(w.machine("a")).Guests; !slices.Equal(got, []types.UID{"guest-1"}) {
				t.Fatalf("the turn remembers the guests %q", got)
			}
			w.prove("a", revision())
			pod.ResourceVersion = ""
			if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
				t.Fatal(err)
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: c.status}}
			if err := w.client.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			w.pass(rollout.DefaultSoak)
			w.visit("builders")
			if got := w.condition(infrav1.HaltedCondition).Status == metav1.ConditionTrue; got != c.halts {
				t.Errorf("halted = %t, want %t", got, c.halts)
			}
		})
	}
}

func TestAMacThatDriftedHasItsTurn(t *testing.T) {
	w := newWorld(t, append(three(revision()), builders())...)
	w.status("b", func(s *infrav1.ScalewayAppleSiliconMachineStatus) { s.Drift.Steps = []string{"firewall"} })
	w.visit("builders")
	if got := w.turns(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("it is the turn of %q, want b's", got)
	}
}

func TestMachinesThatCannotBePushedToHaveNoTurn(t *testing.T) {
	objects := three("old")
	owner := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: "b", DeletionTimestamp: &metav1.Time{Time: start()}, Finalizers: []string{"core"},
	}}
	for i, change := range []func(*infrav1.ScalewayAppleSiliconMachine){
		func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		},
		func(m *infrav1.ScalewayAppleSiliconMachine) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "b"}}
		},
		func(m *infrav1.ScalewayAppleSiliconMachine) { m.Spec.ProviderID = "" },
	} {
		change(objects[2*i].(*infrav1.ScalewayAppleSiliconMachine))
	}
	w := newWorld(t, append(objects, builders(), owner)...)
	w.visit("builders")
	if got := w.turns(); len(got) != 0 {
		t.Errorf("it is the turn of %q", got)
	}
}

// A first bootstrap writes the providerID before what it applied; in between the Mac
// has nothing to be changed.
func TestAMacThatIsBeingSetUpHasNoTurn(t *testing.T) {
	objects := three("")
	for _, o := range objects {
		if m, ok := o.(*infrav1.ScalewayAppleSiliconMachine); ok {
			m.Status.Conditions[0].Status, m.Status.Conditions[0].Reason = metav1.ConditionFalse, infrav1.ReasonRunning
		}
	}
	w := newWorld(t, append(objects, builders())...)
	w.visit("builders")
	if got := w.turns(); len(got) != 0 {
		t.Errorf("it is the turn of %q", got)
	}
}

// What helm --wait waits for.
func TestReady(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		spec    func(*infrav1.MacNodeProfileSpec)
		want    string
	}{
		"all there":                {objects: join(three(revision()), deployment(3)), want: infrav1.ReadyCondition},
		"no deployment":            {objects: three(revision()), want: infrav1.ReadyCondition},
		"nothing seen yet":         {want: infrav1.ReasonMacsMissing},
		"its template is not seen": {objects: deployment(0)[1:], want: infrav1.ReasonMacsMissing},
		"nothing asked for":        {objects: deployment(0), want: infrav1.ReadyCondition},
		"one is missing":           {objects: join(three(revision()), deployment(4)), want: infrav1.ReasonMacsMissing},
		"another revision":         {objects: join(three("old"), deployment(3)), want: infrav1.ReasonRollingOut},
		"the agent waited for":     {objects: three(revision()), spec: func(s *infrav1.MacNodeProfileSpec) { s.AgentVersion = "v1" }, want: infrav1.ReadyCondition},
		"another agent waited for": {objects: three(revision()), spec: func(s *infrav1.MacNodeProfileSpec) { s.AgentVersion = "v2" }, want: infrav1.ReasonAgentVersionAwaited},
		"nonsense":                 {objects: three(revision()), spec: func(s *infrav1.MacNodeProfileSpec) { s.Network.Subnet = "8.8.8.0/24" }, want: infrav1.ReasonInvalidProfile},
	} {
		t.Run(name, func(t *testing.T) {
			p := builders()
			if c.spec != nil {
				c.spec(&p.Spec)
			}
			w := newWorld(t, append(c.objects, p)...)
			w.visit("builders")
			if got := w.condition(infrav1.ReadyCondition); got.Reason != c.want {
				t.Errorf("Ready = %+v, want %s", got, c.want)
			}
		})
	}
}

// A template that is seen after its MachineDeployment wakes the profile: with no Machine asked for
// nothing else would. What becomes of its status wakes nobody.
func TestATemplateWakesItsProfile(t *testing.T) {
	template := deployment(0)[0]
	if got := ofTemplate(t.Context(), template); len(got) != 1 || got[0].Namespace != namespace || got[0].Name != "builders" {
		t.Errorf("it wakes %v", got)
	}
	if got := ofTemplate(t.Context(), &infrav1.ScalewayAppleSiliconMachineTemplate{}); len(got) != 0 {
		t.Errorf("one without a profile wakes %v", got)
	}
	if !newTemplates().Create(event.CreateEvent{Object: template}) || newTemplates().Update(event.UpdateEvent{ObjectOld: template, ObjectNew: template}) {
		t.Error("a new template wakes nobody, or one that has changed somebody")
	}
}
