package uninstall

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func core(name string, deleted bool) clusterv1.Machine {
	m := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("of " + name)}}
	if deleted {
		m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return m
}

func machine(name string, deleted bool) infrav1.ScalewayAppleSiliconMachine {
	owner := core(name, false)
	m := infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(&owner, clusterv1.GroupVersion.WithKind("Machine"))},
	}}
	if deleted {
		m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return m
}

func holding(m infrav1.ScalewayAppleSiliconMachine, token string) infrav1.ScalewayAppleSiliconMachine {
	m.Spec.HostRef = &infrav1.HostReference{Name: "h", ClaimToken: token}
	return m
}

func macWith(edit func(*infrav1.ScalewayAppleSiliconHost)) infrav1.ScalewayAppleSiliconHost {
	h := infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: "h"}}
	h.Spec.ServerID, h.Status.Phase = "id", infrav1.HostAvailable
	h.Status.Server.DeletableAt = &metav1.Time{Time: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)}
	edit(&h)
	return h
}

func TestLook(t *testing.T) {
	released := func(phase infrav1.HostPhase) func(*infrav1.ScalewayAppleSiliconHost) {
		return func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Release, h.Status.Phase = &infrav1.Release{}, phase
		}
	}
	claimed := func(namespace string, edits ...func(*infrav1.ScalewayAppleSiliconHost)) func(*infrav1.ScalewayAppleSiliconHost) {
		return func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.ClaimRef, h.Status.Phase = &infrav1.ClaimReference{Namespace: namespace, Name: "a", Token: "t-1"}, infrav1.HostInUse
			for _, edit := range edits {
				edit(h)
			}
		}
	}
	const stranded = "host h is claimed, and no Machine holds the claim, so that it is not wiped and bills on: macfleet host release h"
	for name, c := range map[string]struct {
		machines      []infrav1.ScalewayAppleSiliconMachine
		cores         []clusterv1.Machine
		host          func(*infrav1.ScalewayAppleSiliconHost)
		stays, passes string
	}{
		"a free Mac":            {},
		"a Mac set aside":       {host: func(h *infrav1.ScalewayAppleSiliconHost) { h.Status.Phase = infrav1.HostQuarantined }},
		"another's":             {host: func(h *infrav1.ScalewayAppleSiliconHost) { h.Status.Phase = infrav1.HostHandedOver }},
		"a Machine":             {machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", false)}, stays: "Machine ns/a is not being deleted"},
		"Machines":              {machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", false), machine("b", false)}, stays: "2 Machines, such as ns/a, are not being deleted"},
		"a Machine that leaves": {machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", true)}, passes: "Machine ns/a is still being drained"},
		"a Machine whose Node is drained": {
			machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", false)}, cores: []clusterv1.Machine{core("a", true)}, passes: "Machine ns/a is still being drained",
		},
		"a Machine whose core Machine stays": {
			machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", false)}, cores: []clusterv1.Machine{core("a", false), core("b", true)}, stays: "Machine ns/a is not being deleted",
		},
		// Its Machine is gone, and its phase was not written since.
		"a release of this moment": {host: released(infrav1.HostInUse), passes: "host h is being released"},
		"a release":                {host: released(infrav1.HostReleasing), passes: "host h is being released"},
		"a wipe":                   {host: released(infrav1.HostWiping), passes: "host h is being released"},
		"a floor":                  {host: released(infrav1.HostRetiring), stays: "let it go, at 2026-11-26T09:00:00Z; without the manager it bills on until you delete server id"},
		"what the vendor deletes": {host: func(h *infrav1.ScalewayAppleSiliconHost) {
			released(infrav1.HostRetiring)(h)
			h.Status.Server.DeletionScheduled = true
		}},
		"a server that lists lack for long": {host: func(h *infrav1.ScalewayAppleSiliconHost) {
			released(infrav1.HostWiping)(h)
			h.Status.MissingSince = &metav1.MicroTime{Time: time.Now().Add(-host.GoneAfterSuspicious - time.Second)}
		}, stays: "the vendor's lists lack its server for long"},
		"a server that lists lack": {host: func(h *infrav1.ScalewayAppleSiliconHost) {
			released(infrav1.HostWiping)(h)
			h.Status.MissingSince = &metav1.MicroTime{Time: time.Now().Add(time.Minute - host.GoneAfterSuspicious)}
		}, passes: "host h is being released"},
		"a wipe that was given up": {host: func(h *infrav1.ScalewayAppleSiliconHost) {
			released(infrav1.HostQuarantined)(h)
			h.Spec.Record.Wipe.Repeats = 9
			h.Spec.Quarantine = &infrav1.Quarantine{Reason: infrav1.ReasonWipeTimedOut}
		}, stays: "host h could not be wiped"},
		"a release that another name holds": {host: func(h *infrav1.ScalewayAppleSiliconHost) {
			released(infrav1.HostReleasing)(h)
			h.Status.Conditions = []metav1.Condition{{Type: infrav1.NameInSyncCondition, Status: metav1.ConditionFalse, Reason: infrav1.ReasonChangedByOther}}
		}, stays: "host h is released, and somebody named its server"},
		"a stranded Mac":                     {host: claimed("ns"), stays: stranded},
		"a stranded Mac of no namespace":     {host: claimed(host.NoNamespace), stays: stranded},
		"a Mac that another's Machine has":   {host: claimed("other-system")},
		"another's Mac that leaves":          {host: claimed("other-system", released(infrav1.HostWiping))},
		"another's floor":                    {host: claimed("other-system", released(infrav1.HostRetiring))},
		"another's order":                    {host: claimed("other-system", func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Order = &infrav1.OrderRequest{} })},
		"an adopted Mac that is wiped":       {host: claimed(host.NoNamespace, released(infrav1.HostWiping)), passes: "host h is being released"},
		"an order of ours":                   {host: claimed("ns", func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Order = &infrav1.OrderRequest{} }), stays: "host h is on order"},
		"a Mac whose Machine leaves":         {host: claimed("ns"), machines: []infrav1.ScalewayAppleSiliconMachine{holding(machine("a", true), "t-1")}, passes: "Machine ns/a is still being drained"},
		"a Mac whose Machine was made again": {host: claimed("ns"), machines: []infrav1.ScalewayAppleSiliconMachine{holding(machine("a", true), "t-2")}, stays: stranded, passes: "Machine ns/a is still being drained"},
		"a Mac that leaves":                  {host: claimed("ns", released(infrav1.HostReleasing)), passes: "host h is being released"},
		"a Mac that was moved": {host: claimed("ns", func(h *infrav1.ScalewayAppleSiliconHost) {
			h.Spec.Record.HandedOverAt = &metav1.MicroTime{Time: time.Now()}
		})},
		"a stranded Mac that the vendor deletes": {host: claimed("ns", func(h *infrav1.ScalewayAppleSiliconHost) { h.Status.Server.DeletionScheduled = true })},
		"a claim on a server that is gone":       {host: claimed("ns", func(h *infrav1.ScalewayAppleSiliconHost) { h.Status.Phase = infrav1.HostGone })},
		"an order":                               {host: func(h *infrav1.ScalewayAppleSiliconHost) { h.Spec.Order = &infrav1.OrderRequest{} }, stays: "host h is on order"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.host == nil {
				c.host = func(*infrav1.ScalewayAppleSiliconHost) {}
			}
			left := Look(Found{Namespace: "ns", Machines: c.machines, CoreMachines: c.cores, Hosts: []infrav1.ScalewayAppleSiliconHost{macWith(c.host)}}, time.Now())
			for _, part := range []struct {
				lines []string
				want  string
			}{{left.Stays, c.stays}, {left.Passes, c.passes}} {
				if got := strings.Join(part.lines, "\n"); (part.want == "") != (got == "") || !strings.Contains(got, part.want) {
					t.Errorf("got %q, want %q", got, part.want)
				}
			}
			if want := c.stays == "" && c.passes == ""; left.Nothing() != want {
				t.Errorf("nothing is left: %t", left.Nothing())
			}
		})
	}
}

func TestBothKindsAreTold(t *testing.T) {
	left := Look(Found{Machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", false), machine("b", true)}}, time.Now())
	if diff := cmp.Diff([]int{1, 1}, []int{len(left.Stays), len(left.Passes)}); diff != "" {
		t.Errorf("%+v: %s", left, diff)
	}
}
