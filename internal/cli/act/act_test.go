package act

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/clienttest"
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
	s.Hosts[1].Spec.Reboot = &infrav1.RebootRequest{ID: "first", Reason: "hangs"}
	s.Machines[1].Spec.ReleasePolicy = infrav1.Detach
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

// counting notes each writing request, in order.
func counting(calls *[]string) interceptor.Funcs {
	note := func(call string, dry []string) {
		if len(dry) > 0 {
			call = "dry " + call
		}
		*calls = append(*calls, call)
	}
	return interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			note("patch", (&client.PatchOptions{}).ApplyOptions(opts).DryRun)
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			note(sub, (&client.SubResourcePatchOptions{}).ApplyOptions(opts).DryRun)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			options, call := (&client.DeleteOptions{}).ApplyOptions(opts), "delete of any"
			if p := options.Preconditions; p != nil && p.UID != nil && *p.UID == o.GetUID() {
				call = "delete"
			}
			note(call, options.DryRun)
			return c.Delete(ctx, o, opts...)
		},
	}
}

// A Mac that somebody else has is paused first, forgotten then, and its Machine deleted last.
func TestATakenMacIsLeftInThisOrder(t *testing.T) {
	s := fleet()
	var calls []string
	c := newFake(t, s, counting(&calls))
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: s.Machines[0].Name}}
	get(t, c, m)
	m.Status.ServerID = "server"
	if err := c.Status().Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	look := looking(c, s.Hosts[0].Name, Detach{Elsewhere: true}.Plan)
	if err := Run(t.Context(), c, agree(t, look), false, look); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(calls, ", "); got != "dry patch, dry status, dry delete, patch, status, delete" {
		t.Errorf("calls: %s", got)
	}
	get(t, c, m)
	if m.Annotations[clusterv1.PausedAnnotation] != "true" || m.Status.ServerID != "" {
		t.Errorf("annotations %v, server %q", m.Annotations, m.Status.ServerID)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), &clusterv1.Machine{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Machine is there: %v", err)
	}
}

// The vendor's readings change a Host all the time: what was agreed to is done all the same.
func TestWhatWasAgreedToIsDone(t *testing.T) {
	s := fleet()
	c := newFake(t, s, interceptor.Funcs{})
	h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: s.Hosts[7].Name}}
	look := looking(c, h.Name, Quarantine{Reason: "fans", Now: clitest.Now()}.Plan)
	plan := agree(t, look)
	get(t, c, h)
	h.Status.Server.IP = "10.0.0.99"
	if err := c.Status().Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), c, plan, false, look); err != nil {
		t.Fatal(err)
	}
	if get(t, c, h); h.Spec.Quarantine == nil || h.Spec.Quarantine.Reason != "fans" {
		t.Errorf("quarantine %+v", h.Spec.Quarantine)
	}
}

// Between the question and the answer a Machine claimed the host: nobody agreed to that.
func TestWhatNobodyAgreedToIsNotDone(t *testing.T) {
	s := fleet()
	c := newFake(t, s, interceptor.Funcs{})
	h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: s.Hosts[9].Name}}
	look := looking(c, h.Name, Wipe{Release: Release{Pool: "tuist-pool-"}}.Plan)
	plan := agree(t, look)
	get(t, c, h)
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: s.Machines[3].Name}}
	get(t, c, m)
	clitest.Claim(h, m)
	if err := errors.Join(c.Update(t.Context(), h), c.Update(t.Context(), m)); err != nil {
		t.Fatal(err)
	}
	err := Run(t.Context(), c, plan, false, look)
	if err == nil || !strings.Contains(err.Error(), "nothing is changed") {
		t.Errorf("says %v", err)
	}
	if get(t, c, h); h.Spec.Adopt != nil {
		t.Error("it is adopted")
	}
}

// Between the question and the answer the Machine lost its Mac and had another: that one is
// nobody's to wipe.
func TestAMachineThatHasAnotherMacIsNotDeleted(t *testing.T) {
	s := fleet()
	c := newFake(t, s, interceptor.Funcs{})
	bad, good := &s.Hosts[0], &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: s.Hosts[7].Name}}
	look := looking(c, bad.Name, Wipe{}.Plan)
	plan := agree(t, look)
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: s.Machines[0].Name}}
	get(t, c, m)
	get(t, c, good)
	get(t, c, bad)
	bad.Spec.ClaimRef = nil
	clitest.Claim(good, m)
	if err := errors.Join(c.Update(t.Context(), bad), c.Update(t.Context(), good), c.Update(t.Context(), m)); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), c, plan, false, look); err == nil || !strings.Contains(err.Error(), "nothing is changed") {
		t.Errorf("says %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), &clusterv1.Machine{}); err != nil {
		t.Errorf("the Machine: %v", err)
	}
}

// What changes between the look and the request is found by the API server alone.
func TestALateChangeIsRefused(t *testing.T) {
	s, changed := fleet(), false
	c := newFake(t, s, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if !changed {
				changed = true
				m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetName()}}
				get(t, c, m)
				m.Labels = map[string]string{"of": "somebody"}
				if err := c.Update(ctx, m); err != nil {
					t.Error(err)
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	plan := agree(t, looking(c, s.Hosts[0].Name, Wipe{Release: Release{Terminate: true}}.Plan))
	plan.Guests = "" // else it is looked at once before
	lookedAgain := errors.New("looked again")
	err := Run(t.Context(), c, plan, false, func(context.Context) (Plan, error) { return Plan{}, lookedAgain })
	if !errors.Is(err, lookedAgain) {
		t.Errorf("says %v", err)
	}
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: s.Machines[0].Name}}
	get(t, c, &clusterv1.Machine{ObjectMeta: m.ObjectMeta})
	if get(t, c, m); len(m.Annotations) > 0 {
		t.Errorf("annotations %v", m.Annotations)
	}
}

// Core's Machine may be another of the same name by the time of the answer: nobody agreed to
// its deletion.
func TestANamesakeIsNotDeleted(t *testing.T) {
	s := fleet()
	c := newFake(t, s, interceptor.Funcs{})
	look := looking(c, s.Hosts[0].Name, Wipe{}.Plan)
	plan := agree(t, look)
	core := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: s.Machines[0].Name}}
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: core.ObjectMeta}
	get(t, c, core)
	get(t, c, m)
	another := core.DeepCopy()
	another.UID, another.ResourceVersion = "another", ""
	m.OwnerReferences[0].UID = "another"
	if err := errors.Join(c.Delete(t.Context(), core), c.Create(t.Context(), another), c.Update(t.Context(), m)); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), c, plan, false, look); err == nil || !strings.Contains(err.Error(), "look again") {
		t.Errorf("says %v", err)
	}
	get(t, c, another)
}

// A deletion that is refused leaves no policy behind, which the next deletion would follow.
func TestARefusedDeletionLeavesNothing(t *testing.T) {
	s := fleet()
	c := newFake(t, s, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return apierrors.NewForbidden(clusterv1.GroupVersion.WithResource("machines").GroupResource(), "m", errors.New("not you"))
		},
	})
	look := looking(c, s.Hosts[0].Name, Wipe{Release: Release{Terminate: true}}.Plan)
	if err := Run(t.Context(), c, agree(t, look), false, look); !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "by hand") {
		t.Errorf("says %v", err)
	}
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: s.Machines[0].Name}}
	if get(t, c, m); len(m.Annotations) > 0 {
		t.Errorf("annotations %v", m.Annotations)
	}
}

// What could not be foreseen is said with what stays.
func TestWhatStaysIsSaid(t *testing.T) {
	s := fleet()
	c := newFake(t, s, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if len((&client.DeleteOptions{}).ApplyOptions(opts).DryRun) > 0 {
				return c.Delete(ctx, o, opts...)
			}
			return errors.New("the line is cut")
		},
	})
	look := looking(c, s.Hosts[0].Name, Wipe{Release: Release{Terminate: true}}.Plan)
	err := Run(t.Context(), c, agree(t, look), false, look)
	want := `not all of it is done: the line is cut. Done, and to be taken back by hand where it is not wanted: {"metadata":{"annotations":{"` +
		infrav1.ReleasePolicyAnnotation + `":"terminate"}}} of ` + clitest.Namespace + "/" + s.Machines[0].Name
	if err == nil || err.Error() != want {
		t.Errorf("says %v\nwant %s", err, want)
	}
}

// Who says that all is wiped before has it wiped, whatever another wished meanwhile.
func TestAWishToTrustTheDiskDoesNotOutliveAnother(t *testing.T) {
	s := fleet()
	h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: s.Hosts[9].Name}}
	s.Hosts[9].Spec.Adopt = &infrav1.Adoption{PoolPrefix: "tuist-pool-", TrustDisk: true}
	c := newFake(t, s, interceptor.Funcs{})
	look := looking(c, h.Name, Adopt{Pool: "tuist-pool-"}.Plan)
	if err := Run(t.Context(), c, agree(t, look), false, look); err != nil {
		t.Fatal(err)
	}
	if get(t, c, h); h.Spec.Adopt == nil || h.Spec.Adopt.TrustDisk {
		t.Errorf("adopt %+v", h.Spec.Adopt)
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

// Pods come and go while a person reads, and no object changes by it that a plan changes:
// one that has ended is no reason to ask again, one that came is.
func TestGuestsThatCameAreNotEnded(t *testing.T) {
	for name, change := range map[string]func(*testing.T, client.Client, string){
		"ended": func(t *testing.T, c client.Client, _ string) {
			if err := c.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "build-7"}}); err != nil {
				t.Fatal(err)
			}
		},
		"came": func(t *testing.T, c client.Client, node string) {
			pod := running("ci", "build-9", node)
			if err := c.Create(t.Context(), &pod); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := fleet()
			c := newFake(t, s, interceptor.Funcs{})
			h := &infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: s.Hosts[0].Name}}
			look := looking(c, h.Name, Reboot{ID: "r", Reason: "hangs", Force: true}.Plan)
			plan := agree(t, look)
			change(t, c, s.Machines[0].Name)
			err := Run(t.Context(), c, plan, false, look)
			switch get(t, c, h); {
			case name == "ended" && (err != nil || h.Spec.Reboot == nil):
				t.Errorf("reboot %v: %v", h.Spec.Reboot, err)
			case name == "came" && (err == nil || !strings.Contains(err.Error(), "ci/build-9") || h.Spec.Reboot != nil):
				t.Errorf("reboot %v: %v", h.Spec.Reboot, err)
			}
		})
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

// A dry run asks the API server each time, and changes nothing.
func TestDryRun(t *testing.T) {
	s := fleet()
	var calls []string
	c := newFake(t, s, counting(&calls))
	plans, steps := 0, 0
	for _, recipe := range recipes() {
		for i := range s.Hosts {
			look := looking(c, s.Hosts[i].Name, recipe.plan)
			plan, err := look(t.Context())
			if err != nil {
				continue
			}
			plans, steps = plans+1, steps+len(plan.Steps)
			if err := Run(t.Context(), c, plan, true, look); err != nil {
				t.Errorf("%s of %s: %v", recipe.name, s.Hosts[i].Name, err)
			}
		}
	}
	if plans < len(recipes()) || len(calls) != steps || slices.ContainsFunc(calls, func(call string) bool { return !strings.HasPrefix(call, "dry ") }) {
		t.Errorf("of %d plans with %d steps were sent %v", plans, steps, calls)
	}
	after, err := snapshot.Load(t.Context(), c, "", snapshot.Hosts, snapshot.Machines, snapshot.CoreMachines)
	if err != nil {
		t.Fatal(err)
	}
	if len(after.CoreMachines) != len(s.CoreMachines) {
		t.Error("a Machine is deleted")
	}
	for i := range after.Hosts {
		if after.Hosts[i].ResourceVersion != "7" {
			t.Errorf("host %s is changed", after.Hosts[i].Name)
		}
	}
	for i := range after.Machines {
		if after.Machines[i].ResourceVersion != "8" {
			t.Errorf("Machine %s is changed", after.Machines[i].Name)
		}
	}
}
