package act

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// fleet is one with a host for each recipe.
func fleet() *snapshot.Snapshot {
	s := clitest.Fleet()
	handedOver, foreign := clitest.Host(9, infrav1.HostHandedOver), clitest.Host(10, infrav1.HostForeign)
	at := metav1.NewMicroTime(clitest.Now().Add(-time.Hour))
	handedOver.Spec.Record.HandedOverAt = &at
	handedOver.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "away", Name: "away", Token: "t"}
	foreign.Status.Server.Name = "somebodys"
	s.Hosts = append(s.Hosts, handedOver, foreign)
	s.Hosts[4].Spec.Maintenance = &infrav1.Maintenance{Reason: "disk swap"}
	s.Hosts[5].Spec.Record.Wipe.RequiredSince = &at // so that it is NotWiped
	s.Hosts[1].Spec.Reboot = &infrav1.RebootRequest{ID: "first", Reason: "hangs"}
	s.Machines[1].Spec.ReleasePolicy = infrav1.Detach
	s.Hosts[2].Spec.Record.Hardware = &infrav1.HostHardware{Serial: "C02OLD"}
	s.Hosts[2].Spec.Record.Ordered = true // whose own policy is Terminate
	for _, name := range []string{"build-7", "build-8"} {
		s.Pods = append(s.Pods, running("ci", name, s.Machines[0].Name))
	}
	s.Pods = append(s.Pods, running("ci", "left", s.Hosts[3].Spec.ClaimRef.Name))
	yes := true
	for i := range s.Hosts {
		s.Hosts[i].ResourceVersion = "7"
	}
	for i := range s.Machines {
		m := &s.Machines[i]
		m.ResourceVersion = "8"
		uid := types.UID("core-" + m.Name)
		m.OwnerReferences = []metav1.OwnerReference{{Kind: "Machine", Name: m.Name, UID: uid, Controller: &yes}}
		core := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Namespace, Name: m.Name, UID: uid, ResourceVersion: "9",
			OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "builders-x7k2p", Controller: &yes}},
		}}
		core.Spec.InfrastructureRef.Name = m.Name
		// A copy names the same Mac, and has no part in it.
		copied := *core.DeepCopy()
		copied.Name, copied.UID = "copy-of-"+m.Name, "copy"
		s.CoreMachines = append(s.CoreMachines, core, copied)
	}
	return s
}

func running(namespace, name, node string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// recipes are all verbs, with the flags that change what they do.
func recipes() []struct {
	name string
	plan func(Mac) (Plan, error)
} {
	now := clitest.Now()
	return []struct {
		name string
		plan func(Mac) (Plan, error)
	}{
		{"release", Release{Now: now}.Plan},
		{"release --pool other- --os sequoia", Release{Pool: "other-", OS: "sequoia", Now: now}.Plan},
		{"release --terminate", Release{Terminate: true, Now: now}.Plan},
		{"adopt", Adopt{}.Plan},
		{"adopt --trust-disk", Adopt{TrustDisk: true}.Plan},
		{"adopt --cancel", Adopt{Cancel: true}.Plan},
		{"wipe", Wipe{Release: Release{Now: now}}.Plan},
		{"wipe --terminate", Wipe{Release: Release{Terminate: true, Now: now}, Token: "fresh"}.Plan},
		{"wipe --os sequoia", Wipe{Release: Release{OS: "sequoia", Now: now}}.Plan},
		{"wipe --pool other- --terminate", Wipe{Release: Release{Pool: "other-", Terminate: true, Now: now}}.Plan},
		{"wipe --terminate, past the floor", Wipe{Release: Release{Terminate: true, Now: now.Add(24 * time.Hour)}, Token: "fresh"}.Plan},
		{"detach", Detach{}.Plan},
		{"detach --elsewhere", Detach{Elsewhere: true}.Plan},
		{"quarantine --reason fans --for 48h", Quarantine{Reason: "fans", For: 48 * time.Hour, Now: now}.Plan},
		{"quarantine --end", Quarantine{End: true, Now: now}.Plan},
		{"maintenance --reason swap", Maintenance{Reason: "swap"}.Plan},
		{"maintenance --end", Maintenance{End: true}.Plan},
		{"reboot --reason hangs", Reboot{ID: "by-hand-1", Reason: "hangs"}.Plan},
		{"reboot --cancel", Reboot{Cancel: true}.Plan},
		{"accept-serial --serial C02NEW", AcceptSerial{Serial: "C02NEW"}.Plan},
		{"reboot --reason hangs --force", Reboot{ID: "by-hand-1", Reason: "hangs", Force: true}.Plan},
	}
}

// What each verb says and sends, for a host of each phase.
func TestPlans(t *testing.T) {
	clitest.Golden(t, "plans.txt", screen.Screen{}, func(out io.Writer, _ screen.Screen) error {
		s := fleet()
		for _, recipe := range recipes() {
			for i := range s.Hosts {
				h := &s.Hosts[i]
				fmt.Fprintf(out, "%s %s (%s)\n", recipe.name, h.Name[:17], h.Status.Phase)
				plan, err := recipe.plan(MacOf(s, h))
				if err != nil {
					fmt.Fprintf(out, "  refused: %v\n", err)
					continue
				}
				describe(t, out, plan)
			}
		}
		for _, pause := range []Pause{{}, {Resume: true}} {
			for _, paused := range []bool{false, true} {
				p := s.Profiles[0]
				p.Spec.Rollout.Paused = paused
				fmt.Fprintf(out, "rollout resume %v, paused %v\n", pause.Resume, paused)
				plan, err := pause.Plan(&p)
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

func describe(t *testing.T, out io.Writer, plan Plan) {
	t.Helper()
	for _, says := range plan.Lines() {
		fmt.Fprintf(out, "  - %s\n", says)
	}
	for _, step := range plan.Steps {
		what := fmt.Sprintf("%T %s", step.Object, step.Object.GetName())
		if step.Patch == nil {
			fmt.Fprintf(out, "  DELETE %s\n", what)
			continue
		}
		body, err := step.body(true)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(out, "  PATCH %s status=%v %s\n", what, step.Status, body)
	}
}

func newFake(t *testing.T, s *snapshot.Snapshot, funcs interceptor.Funcs) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&infrav1.ScalewayAppleSiliconHost{}, &infrav1.ScalewayAppleSiliconMachine{}).WithInterceptorFuncs(funcs)
	for i := range s.Hosts {
		builder = builder.WithObjects(&s.Hosts[i])
	}
	for i := range s.Machines {
		builder = builder.WithObjects(&s.Machines[i])
	}
	for i := range s.CoreMachines {
		builder = builder.WithObjects(&s.CoreMachines[i])
	}
	for i := range s.Pods {
		builder = builder.WithObjects(&s.Pods[i])
	}
	return clienttest.AsServed(builder.WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).Build())
}

// looking plans from what is there.
func looking(c client.Client, host string, recipe func(Mac) (Plan, error)) func(context.Context) (Plan, error) {
	return func(ctx context.Context) (Plan, error) {
		s, err := snapshot.Load(ctx, c, "", snapshot.Hosts, snapshot.Machines, snapshot.CoreMachines)
		if err != nil {
			return Plan{}, err
		}
		for i := range s.Hosts {
			if s.Hosts[i].Name != host {
				continue
			}
			if err := s.AddPodsOn(ctx, c, (Mac{Host: &s.Hosts[i]}).Node()); err != nil {
				return Plan{}, err
			}
			return recipe(MacOf(s, &s.Hosts[i]))
		}
		return Plan{}, errors.New("no such host")
	}
}

func agree(t *testing.T, look func(context.Context) (Plan, error)) Plan {
	t.Helper()
	plan, err := look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func get(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
}

// A recovery's reinstall keeps the Mac with its Machine: that release is nobody's to give away.
func TestAReinstallForAMachineIsNotGivenAway(t *testing.T) {
	s := fleet()
	h := &s.Hosts[0]
	h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: infrav1.Reinstall}
	_, err := Release{Terminate: true}.Plan(MacOf(s, h))
	if err == nil || !strings.Contains(err.Error(), "is reinstalled for Machine "+clitest.Namespace+"/"+s.Machines[0].Name) {
		t.Errorf("says %v", err)
	}
}

// A paused Cluster holds a deletion up, and nothing says so once it is recorded: the plan does.
func TestADeletionInAPausedClusterIsSaidToWait(t *testing.T) {
	for name, c := range map[string]struct {
		cluster, namespace string
		paused, waits      bool
	}{
		"paused":                   {"macfleet", clitest.Namespace, true, true},
		"not paused":               {"macfleet", clitest.Namespace, false, false},
		"another Cluster":          {"another", clitest.Namespace, true, false},
		"one of another namespace": {"macfleet", "another", true, false},
	} {
		s := fleet()
		s.Clusters = []clusterv1.Cluster{{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.cluster}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(c.paused)}}}
		for verb, plan := range map[string]func(Mac) (Plan, error){"wipe": Wipe{}.Plan, "detach": Detach{}.Plan, "detach --elsewhere": Detach{Elsewhere: true}.Plan} {
			p, err := plan(MacOf(s, &s.Hosts[0]))
			says := "that waits while its Cluster " + clitest.Namespace + "/macfleet is paused, and begins as soon as it is resumed"
			if err != nil || slices.Contains(p.Says, says) != c.waits {
				t.Errorf("%s, %s: says %q, %v", name, verb, p.Says, err)
			}
		}
	}
}

// Another cluster's pool in the same project is not given back to the vendor from here.
func TestAMacOfAnotherClustersPoolIsNotGivenBack(t *testing.T) {
	for name, given := range map[string]bool{"tuist-pool-": true, "theirs-": false} {
		s := fleet()
		h := &s.Hosts[4] // quarantined, which says nothing of its pool
		h.Status.Server.Name, h.Spec.Maintenance = name+h.Spec.ServerID, nil
		_, err := Wipe{Release: Release{Terminate: true, Now: clitest.Now()}, Token: "fresh"}.Plan(MacOf(s, h))
		if (err == nil) != given || err != nil && !strings.Contains(err.Error(), "no Mac of the pool") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A Mac that is clean and in the pool is wiped by no adoption, whatever keeps it out of the pool.
func TestACleanMacOfThePoolIsNotPromisedAWipe(t *testing.T) {
	for name, c := range map[string]struct {
		plan    func(Mac) (Plan, error)
		phase   infrav1.HostPhase
		dirty   bool
		refused bool
	}{
		"adopt, quarantined":              {Adopt{}.Plan, infrav1.HostQuarantined, false, true},
		"adopt, not seen lately":          {Adopt{}.Plan, infrav1.HostDiscovered, false, true},
		"wipe, quarantined":               {Wipe{}.Plan, infrav1.HostQuarantined, false, true},
		"wipe, quarantined and not wiped": {Wipe{}.Plan, infrav1.HostQuarantined, true, false},
		"into another pool":               {Adopt{Pool: "other-"}.Plan, infrav1.HostQuarantined, false, false},
		"adopt --trust-disk, quarantined": {Adopt{TrustDisk: true}.Plan, infrav1.HostQuarantined, false, false},
	} {
		s := fleet()
		h := &s.Hosts[4]
		h.Status.Phase, h.Spec.Maintenance = c.phase, nil
		if c.dirty {
			h.Spec.Record.Wipe.RequiredSince = s.Hosts[5].Spec.Record.Wipe.RequiredSince
		}
		_, err := c.plan(MacOf(s, h))
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "is in the pool tuist-pool- already, and no Machine had it since it was wiped, trusted or first seen: an adoption wipes nothing. It is "+string(c.phase)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a DaemonSet puts back at once is not waited for, and ends.
func TestARebootSaysWhatItDoesNotWaitFor(t *testing.T) {
	s := fleet()
	yes := true
	at := slices.IndexFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == "build-7" })
	s.Pods[at].OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "exporter", Controller: &yes}}
	plan, err := Reboot{ID: "r", Reason: "hangs"}.Plan(MacOf(s, &s.Hosts[0]))
	if err != nil {
		t.Fatal(err)
	}
	want := "Pods that it waits for (1): ci/build-8; Pods of DaemonSets, that it does not wait for and that end by this (1): ci/build-7"
	if plan.Guests != want || !slices.Equal(plan.Ends, []string{"ci/build-7"}) {
		t.Errorf("says %q, ends %v", plan.Guests, plan.Ends)
	}
}

// Who may not list Pods is told so, and that it is not known who ends.
func TestGuestsThatMayNotBeSeen(t *testing.T) {
	s := fleet()
	s.Pods, s.Missing = nil, []snapshot.Missing{{Kind: snapshot.Pods, Why: "you may not list them in all namespaces"}}
	plan, err := Reboot{ID: "r", Reason: "hangs", Force: true}.Plan(MacOf(s, &s.Hosts[0]))
	if err != nil {
		t.Fatal(err)
	}
	lines := plan.Lines()
	if got := lines[len(lines)-1]; got != "which Pods run on it cannot be told: you may not list them in all namespaces" {
		t.Errorf("says %q", got)
	}
}

// Of a Mac whose Node is away nobody waits for Pods: they end.
func TestARebootOfADeadMacSaysWhoEnds(t *testing.T) {
	s := fleet()
	s.Machines[0].Status.Conditions = []metav1.Condition{clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeUnreachable, "", time.Hour)}
	plan, err := Reboot{ID: "r", Reason: "hangs"}.Plan(MacOf(s, &s.Hosts[0]))
	if err != nil {
		t.Fatal(err)
	}
	if plan.Guests != "Pods that end by this (2): ci/build-7, ci/build-8" || len(plan.Ends) != 2 {
		t.Errorf("says %q, ends %v", plan.Guests, plan.Ends)
	}
}

// What a Mac that no Machine has is not rebooted for is said, and where that never ends it is refused.
func TestARebootOfAMacOfNobodyIsNotPromisedAtOnce(t *testing.T) {
	s := fleet()
	h := &s.Hosts[3] // Stranded
	plan, err := Reboot{ID: "r", Reason: "hangs"}.Plan(MacOf(s, h))
	if err != nil {
		t.Fatal(err)
	}
	want := "as soon as neither maintenance, nor a pause, nor what the vendor does with the server, nor Pods on a Ready Node hold it up: no Machine here has it, and nobody here knows what runs on it"
	if plan.Says[1] != want || plan.Guests != "Pods that end by this, unless their Node is Ready and it waits for them (1): ci/left" || !slices.Equal(plan.Ends, []string{"ci/left"}) {
		t.Errorf("says %q, %q, ends %v", plan.Says, plan.Guests, plan.Ends)
	}
	for name, c := range map[string]struct {
		host    int
		force   bool
		refused bool
	}{"Foreign": {9, false, true}, "Foreign, by force": {9, true, true}, "claimed": {0, false, false}} {
		h := &s.Hosts[c.host]
		h.Status.Server.Status = string(cloud.StatusError)
		_, err := Reboot{ID: "r", Reason: "hangs", Force: c.force}.Plan(MacOf(s, h))
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "its reinstall may have failed, which a restart would hide; reinstall it") {
			t.Errorf("in error, %s: %v", name, err)
		}
	}
}

// A reboot is made once for each id: nobody is promised a second one.
func TestARebootThatWasMadeIsNotPromisedAgain(t *testing.T) {
	s := fleet()
	h := &s.Hosts[0]
	h.Status.LastReboot = infrav1.RebootStatus{ID: "r", At: metav1.NewMicroTime(clitest.Now().Add(-time.Hour))}
	for _, force := range []bool{false, true} {
		if _, err := (Reboot{ID: "r", Reason: "hangs", Force: force}).Plan(MacOf(s, h)); err == nil || !strings.Contains(err.Error(), "was rebooted for r already, at "+clitest.Now().Add(-time.Hour).Format(time.RFC3339)) {
			t.Errorf("force %v: %v", force, err)
		}
	}
	if _, err := (Reboot{ID: "another", Reason: "hangs"}).Plan(MacOf(s, h)); err != nil {
		t.Errorf("another one: %v", err)
	}
}

// Of an order there is no Mac yet: it is cancelled, and nobody waits for a wipe, or adopts it.
func TestAnOrderIsCancelled(t *testing.T) {
	s := fleet()
	h := &s.Hosts[0]
	h.Spec.Order = &infrav1.OrderRequest{}
	for terminate, want := range map[bool]string{
		false: "a server that comes of it all the same is wiped and goes back to the pool, which takes 15 to 20 minutes",
		true:  "a server that comes of it all the same is given back to the vendor, at its billing floor, when its wipe has begun, or is late or refused",
	} {
		plan, err := Wipe{Release: Release{Terminate: terminate}}.Plan(MacOf(s, h))
		if err != nil || !slices.Contains(plan.Says, "host "+h.Name+" is an order, of which no server came yet: it is cancelled") || plan.Says[len(plan.Says)-1] != want {
			t.Errorf("terminate %v: says %q, %v", terminate, plan.Says, err)
		}
	}
	for _, detach := range []Detach{{}, {Elsewhere: true}} {
		if _, err := detach.Plan(MacOf(s, h)); err == nil || !strings.Contains(err.Error(), "To cancel it: macfleet host wipe "+h.Name) {
			t.Errorf("%+v: %v", detach, err)
		}
	}
}

// Somebody else's Mac is neither wiped nor rebooted, whatever is asked for: nobody is promised that it is.
func TestAMacThatWasRenamedIsLeftAlone(t *testing.T) {
	renamed := clitest.Condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther, "", time.Minute)
	s := fleet()
	for name, c := range map[string]struct {
		host   int
		plan   func(Mac) (Plan, error)
		detach bool
	}{
		"wipe":                {0, Wipe{}.Plan, true},
		"wipe --terminate":    {0, Wipe{Release: Release{Terminate: true}}.Plan, true},
		"release, stranded":   {3, Release{}.Plan, false},
		"wipe, stranded":      {3, Wipe{}.Plan, false},
		"release --terminate": {3, Release{Terminate: true}.Plan, false},
	} {
		h := &s.Hosts[c.host]
		h.Status.Conditions = append(h.Status.Conditions, renamed)
		h.Status.Server.Name = "oops"
		_, err := c.plan(MacOf(s, h))
		says := "would not be wiped: somebody named its server oops at the vendor, and it is theirs until it is named " + h.Spec.ClaimRef.Name + " again"
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "macfleet host detach "+h.Name) != c.detach {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, force := range []bool{false, true} {
		_, err := Reboot{ID: "r", Reason: "hangs", Force: force}.Plan(MacOf(s, &s.Hosts[0]))
		if err == nil || !strings.Contains(err.Error(), "would not be rebooted: somebody named its server oops at the vendor") {
			t.Errorf("reboot, force %t: %v", force, err)
		}
	}
	if _, err := (Detach{}).Plan(MacOf(s, &s.Hosts[0])); err != nil {
		t.Errorf("it can be let go: %v", err)
	}
}

// Of a wipe that came to nothing twice nobody waits for the end once the Mac goes back to the vendor.
func TestAReleaseToTheVendorPromisesNoWipe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*infrav1.ScalewayAppleSiliconHost)
		says   string
		err    string
	}{
		"under way": {func(*infrav1.ScalewayAppleSiliconHost) {}, "is given back to the vendor when its wipe has begun, or is late or refused, and does not go back to the pool", ""},
		"came to nothing twice": {
			func(h *infrav1.ScalewayAppleSiliconHost) {
				host.RecordRepeat(h, clitest.Now())
				host.RecordWipeAbandoned(h, infrav1.ReasonWipeTimedOut, clitest.Now())
			}, "its wipe came to nothing twice, so that happens at once or after one more try, perhaps NOT wiped", "",
		},
		"held": {
			func(h *infrav1.ScalewayAppleSiliconHost) {
				h.Status.Server.Name = "oops"
				h.Status.Conditions = append(h.Status.Conditions, clitest.Condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther, "", time.Minute))
			}, "", "would not be wiped: somebody named its server oops at the vendor",
		},
	} {
		s := fleet()
		h := &s.Hosts[6]
		c.change(h)
		for _, plan := range []func(Mac) (Plan, error){Release{Terminate: true}.Plan, Wipe{Release: Release{Terminate: true}}.Plan} {
			p, err := plan(MacOf(s, h))
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || !strings.Contains(strings.Join(p.Says, "\n"), c.says) {
				t.Errorf("%s: says %q, %v", name, p.Says, err)
			}
		}
	}
}

// A release that another's name holds is ended by hand, with its claim: nothing else can.
func TestDetachEndsAReleaseThatIsHeld(t *testing.T) {
	h := clitest.Host(1, infrav1.HostReleasing, clitest.Condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther, "", time.Hour))
	h.Spec.ClaimRef, h.Spec.Release = &infrav1.ClaimReference{Token: "t"}, &infrav1.Release{Token: "t"}
	plan, err := Detach{}.Plan(Mac{Host: &h})
	want := spec(map[string]any{"claimRef": nil, "release": nil})
	if err != nil || len(plan.Steps) != 1 || !reflect.DeepEqual(plan.Steps[0].Patch, want) {
		t.Errorf("%+v, %v", plan, err)
	}
	h.Status.Conditions = nil
	if _, err := (Detach{}).Plan(Mac{Host: &h}); err == nil {
		t.Error("a release that goes on was ended")
	}
}
