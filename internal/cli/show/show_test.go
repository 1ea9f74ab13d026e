package show

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/screen"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

// widths are a pipe's, a usual terminal's and a narrow one's.
var widths = map[string]screen.Screen{"pipe": {}, "120": {Width: 120}, "40": {Width: 40}, "colour": {Width: 120, Colour: true}}

func TestStatusOnOneScreen(t *testing.T) {
	for name, sc := range widths {
		clitest.Golden(t, "status-"+name+".txt", sc, StatusOf(clitest.Fleet(), reasons.Read()).Write)
	}
	clitest.Golden(t, "status-empty.txt", screen.Screen{}, StatusOf(&snapshot.Snapshot{At: clitest.Now()}, reasons.Read()).Write)
	clitest.Golden(t, "status.json", screen.Screen{}, func(out io.Writer, _ screen.Screen) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(StatusOf(clitest.Fleet(), reasons.Read()))
	})
}

// A name is proposed where there is but one to ask about.
func TestWhereToReadOn(t *testing.T) {
	machine := Item{Kind: "machine", Namespace: "ci", Name: "m"}
	several := Item{Kind: "machine", Namespace: "ci", Name: "m", More: 2}
	const any = "Whole stories: macfleet explain host|machine|pod|profile|cluster NAME, with the NAME of its line"
	for name, c := range map[string]struct {
		person, waits []Item
		want          string
	}{
		"one that needs a person": {person: []Item{machine}, want: "The whole story: macfleet explain machine ci/m"},
		"one that waits":          {waits: []Item{machine}, want: "The whole story: macfleet explain machine ci/m"},
		"a host":                  {person: []Item{{Kind: "host", Name: "h"}}, want: "The whole story: macfleet explain host h"},
		"one line of several":     {waits: []Item{several}, want: any},
		"two":                     {person: []Item{machine}, waits: []Item{machine}, want: any},
		"what has no story":       {person: []Item{{Kind: "manager", Namespace: "ci", Name: "m"}}, want: any},
		"none":                    {want: "Nothing waits, and nobody is needed."},
	} {
		var text strings.Builder
		if err := (Status{Person: c.person, Waits: c.waits}).last(&text, screen.Screen{}); err != nil || strings.TrimSpace(text.String()) != c.want {
			t.Errorf("%s: %q, %v, want %q", name, &text, err, c.want)
		}
	}
}

func TestTables(t *testing.T) {
	s := clitest.Fleet()
	for name, sc := range widths {
		for _, wide := range []bool{false, true} {
			file := name
			if wide {
				file = "wide-" + name
			}
			hosts, err := Hosts(s.Hosts, s.At, wide, "")
			if err != nil {
				t.Fatal(err)
			}
			machines, err := Machines(s, wide, "")
			if err != nil {
				t.Fatal(err)
			}
			clitest.Golden(t, "hosts-"+file+".txt", sc, hosts.Write)
			clitest.Golden(t, "machines-"+file+".txt", sc, machines.Write)
		}
	}
}

func TestOrders(t *testing.T) {
	ordering := clitest.Condition(infrav1.AvailableCondition, metav1.ConditionFalse, infrav1.ReasonOrdering, "the host is being ordered", time.Minute)
	waits := clitest.Host(9, infrav1.HostOrdering, ordering, clitest.Condition(infrav1.OrderedCondition, metav1.ConditionFalse, infrav1.ReasonOutOfStock, "the vendor has no M2-L in fr-par-1", time.Minute))
	waits.Spec.Order = &infrav1.OrderRequest{Name: "macfleet-builders-x7k2p-00004", Type: "M2-L", OS: "tahoe", Zone: "fr-par-1", Profile: "macfleet-system/macfleet-builders", AttemptedAt: ptr.To(metav1.NewMicroTime(clitest.Now().Add(-time.Minute)))}
	fresh := clitest.Host(8, infrav1.HostOrdering, ordering)
	fresh.Spec.Order = &infrav1.OrderRequest{Name: "macfleet-builders-x7k2p-00005", Type: "M4-S", Zone: "fr-par-3"}
	taken := clitest.Host(7, infrav1.HostClaimed)
	taken.Spec.Record.Ordered, taken.Status.Server.Delivered, taken.Status.Server.Status = true, false, "starting"
	taken.Spec.ClaimRef = &infrav1.ClaimReference{Name: "macfleet-builders-x7k2p-00006"}
	made := clitest.Host(6, infrav1.HostOrdering, ordering, clitest.Condition(infrav1.OrderedCondition, metav1.ConditionTrue, infrav1.OrderedCondition, "the server is 00000001", time.Minute))
	made.Spec.Order = &infrav1.OrderRequest{Name: "macfleet-builders-x7k2p-00007", Type: "M4-S", Zone: "fr-par-3", AttemptedAt: waits.Spec.Order.AttemptedAt}
	ends := clitest.Host(5, infrav1.HostRetiring, ordering, clitest.Condition(host.RetiredCondition, metav1.ConditionFalse, infrav1.ReasonRetiring, "the order ends", time.Minute), waits.Status.Conditions[1])
	ends.Spec.Order = &infrav1.OrderRequest{Name: "macfleet-builders-x7k2p-00008", Type: "M2-L", Zone: "fr-par-1", AttemptedAt: waits.Spec.Order.AttemptedAt}
	table, err := Orders([]infrav1.ScalewayAppleSiliconHost{waits, fresh, taken, made, ends}, clitest.Now(), true, "")
	if err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "orders-wide.txt", screen.Screen{}, table.Write)
}

// Rows fit the usual terminal, with the widest usual cells.
func TestTablesFit(t *testing.T) {
	s := clitest.Fleet()
	s.Hosts[0].Status.Phase, s.Hosts[0].Status.Server.Type = infrav1.HostQuarantined, "M4-M"
	hosts, err := Hosts(s.Hosts, s.At, false, "")
	if err != nil {
		t.Fatal(err)
	}
	machines, err := Machines(s, false, "")
	if err != nil {
		t.Fatal(err)
	}
	status := StatusOf(s, reasons.Read())
	for _, width := range []int{40, 120} {
		for name, write := range map[string]func(io.Writer, screen.Screen) error{"hosts": hosts.Write, "machines": machines.Write, "status": status.Write} {
			var text strings.Builder
			if err := write(&text, screen.Screen{Width: width}); err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(text.String(), "\n") {
				if n := len([]rune(line)); n > width && (width == 120 || strings.HasPrefix(line, " ")) { // names are whole
					t.Errorf("%s at %d columns: %d in %q", name, width, n, line)
				}
			}
			if width == 120 && !strings.Contains(text.String(), "PHASE   ") && name != "status" {
				t.Errorf("%s is no table at 120 columns", name)
			}
		}
	}
}

func TestSorting(t *testing.T) {
	s := clitest.Fleet()
	for by, first := range map[string]string{"": "fr-par-1-00000001", "age": "fr-par-1-00000001", "phase": "fr-par-1-00000008", "kept-out": "fr-par-1-00000001", "PHASE": "fr-par-1-00000008"} {
		table, err := Hosts(s.Hosts, s.At, false, by)
		if err != nil || !strings.HasPrefix(table.Rows[0][0].Text, first) {
			t.Errorf("by %q: first is %s, %v", by, table.Rows[0][0].Text, err)
		}
	}
	if _, err := Hosts(s.Hosts, s.At, false, "colour"); err == nil || !strings.Contains(err.Error(), "kept-out") {
		t.Errorf("by a column that is none: %v", err)
	}
}

// Pods of Linux are no Mac's business; one that a Mac has is, while it starts.
func TestPodsThatAMacConcerns(t *testing.T) {
	s := clitest.Fleet()
	bound := clitest.PendingPod(9)
	bound.Spec.NodeSelector, bound.Spec.NodeName = nil, s.Machines[0].Name
	elsewhere := clitest.PendingPod(8)
	elsewhere.Spec.NodeName = "linux-1"
	s.Pods = append(s.Pods, bound, elsewhere)
	var names []string
	for _, f := range podFindings(s, reasons.Read()) {
		names = append(names, f.Name)
	}
	if got := strings.Join(names, " "); got != "build-1 build-2 build-3 build-9" {
		t.Errorf("tells of %s", got)
	}
}

// A Mac that another name holds on its way back needs a person; one that is wiped once by
// itself, since nobody knows its past, needs none.
func TestWhatKeepsAMacFromThePoolNeedsAPersonOrPasses(t *testing.T) {
	held := clitest.Host(1, infrav1.HostReleasing, clitest.Condition(infrav1.NameInSyncCondition, metav1.ConditionFalse, infrav1.ReasonChangedByOther, "named theirs", time.Minute))
	held.Spec.Release = &infrav1.Release{}
	unknown := func(reason string) infrav1.ScalewayAppleSiliconHost {
		return clitest.Host(2, infrav1.HostDirty, clitest.Condition(infrav1.AvailableCondition, metav1.ConditionFalse, reason, "", time.Minute))
	}
	unnamed := func(wiped time.Duration) infrav1.ScalewayAppleSiliconHost {
		h := clitest.Host(3, infrav1.HostWiping, clitest.Condition(infrav1.AvailableCondition, metav1.ConditionFalse, "Wiping", "the vendor refuses: locked", time.Minute))
		h.Spec.Release = &infrav1.Release{Policy: infrav1.Recycle}
		h.Spec.Record.Wipe = infrav1.WipeRecord{RequestedAt: ptr.To(metav1.MicroTime(clitest.Ago(time.Hour))), ObservedAt: ptr.To(metav1.MicroTime(clitest.Ago(wiped)))}
		return h
	}
	for name, c := range map[string]struct {
		host    infrav1.ScalewayAppleSiliconHost
		command string
	}{
		"unnamed": {unnamed(11 * time.Minute), "macfleet explain host " + unnamed(0).Name}, "being named": {unnamed(9 * time.Minute), ""},
		"held":      {held, "macfleet explain host " + held.Name},
		"not wiped": {unknown("NotWiped"), "macfleet host adopt " + unknown("").Name},
		"unseen":    {unknown(host.ReasonNeverSeenWiped), ""},
	} {
		s := &snapshot.Snapshot{At: clitest.Now(), Hosts: []infrav1.ScalewayAppleSiliconHost{c.host}}
		got, command := StatusOf(s, reasons.Read()), ""
		if len(got.Person) == 1 {
			command = got.Person[0].Command
		}
		if command != c.command || len(got.Person)+len(got.Waits) > 1 {
			t.Errorf("%s: %+v, want to type %q", name, got, c.command)
		}
	}
}

// A quarantine for a while passes; maintenance beside it is for a person to end.
func TestMaintenanceBesideAQuarantineNeedsAPerson(t *testing.T) {
	for maintained, person := range map[bool]bool{false: false, true: true} {
		h := clitest.Host(1, infrav1.HostInUse, clitest.Condition(infrav1.KeptOutCondition, metav1.ConditionTrue, infrav1.ReasonQuarantined, "", time.Minute))
		h.Spec.Quarantine = &infrav1.Quarantine{Reason: "fans", Until: ptr.To(clitest.Ago(-time.Hour))}
		if maintained {
			h.Spec.Maintenance = &infrav1.Maintenance{Reason: "swap"}
		}
		got := StatusOf(&snapshot.Snapshot{At: clitest.Now(), Hosts: []infrav1.ScalewayAppleSiliconHost{h}}, reasons.Read())
		if (len(got.Person) == 1) != person || len(got.Person)+len(got.Waits) != 1 {
			t.Errorf("in maintenance %v: %+v", maintained, got)
		}
	}
}

// A wipe that the vendor refuses waits for a person; one that it is at does not.
func TestARefusedWipeNeedsAPerson(t *testing.T) {
	for reason, person := range map[string]bool{infrav1.ReasonWipeRejected: true, infrav1.ReasonReinstalling: false} {
		for released, told := range map[bool]bool{true: person, false: false} {
			h := clitest.Host(1, infrav1.HostReleasing, clitest.Condition(infrav1.WipedCondition, metav1.ConditionFalse, reason, "", time.Minute))
			if released {
				h.Spec.Release = &infrav1.Release{}
			}
			s := &snapshot.Snapshot{At: clitest.Now(), Hosts: []infrav1.ScalewayAppleSiliconHost{h}}
			if got := StatusOf(s, reasons.Read()).Person; (len(got) == 1) != told {
				t.Errorf("%s, released %v: %+v", reason, released, got)
			}
		}
	}
}
