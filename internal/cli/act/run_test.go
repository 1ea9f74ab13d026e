package act

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

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
	if _, typed := errors.AsType[PartlyError](err); !typed || err.Error() != want {
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
