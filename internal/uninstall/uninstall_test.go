package uninstall

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func machine(name string, deleted bool) infrav1.ScalewayAppleSiliconMachine {
	m := infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}}
	if deleted {
		m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	}
	return m
}

func host(phase infrav1.HostPhase) infrav1.ScalewayAppleSiliconHost {
	h := infrav1.ScalewayAppleSiliconHost{ObjectMeta: metav1.ObjectMeta{Name: "h"}}
	h.Spec.ServerID, h.Status.Phase = "id", phase
	h.Status.Server.DeletableAt = &metav1.Time{Time: time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)}
	return h
}

func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		machines      []infrav1.ScalewayAppleSiliconMachine
		phase         infrav1.HostPhase
		stays, passes string
	}{
		"nothing":               {},
		"a free Mac":            {phase: infrav1.HostAvailable},
		"a Mac set aside":       {phase: infrav1.HostQuarantined},
		"another's":             {phase: infrav1.HostHandedOver},
		"a Machine":             {machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", false)}, stays: "Machine ns/a is not being deleted"},
		"Machines":              {machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", false), machine("b", false)}, stays: "2 Machines, such as ns/a, are not being deleted"},
		"a Machine that leaves": {machines: []infrav1.ScalewayAppleSiliconMachine{machine("a", true)}, passes: "Machine ns/a is still being drained"},
		"a release":             {phase: infrav1.HostReleasing, passes: "host h is Releasing"},
		"a wipe":                {phase: infrav1.HostWiping, passes: "host h is Wiping"},
		"a floor":               {phase: infrav1.HostRetiring, stays: "let it go, at 2026-11-26T09:00:00Z; without the manager it bills on until you delete server id"},
		"an order":              {phase: infrav1.HostOrdering, stays: "host h is on order"},
	} {
		t.Run(name, func(t *testing.T) {
			left := Look(c.machines, []infrav1.ScalewayAppleSiliconHost{host(c.phase)})
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
	left := Look([]infrav1.ScalewayAppleSiliconMachine{machine("a", false), machine("b", true)}, nil)
	if diff := cmp.Diff([]int{1, 1}, []int{len(left.Stays), len(left.Passes)}); diff != "" {
		t.Errorf("%+v: %s", left, diff)
	}
}
