package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// TestRequirement000_TerminateAtTheFloor: a Machine whose server is to be given back
// goes at once, though the vendor refuses the deletion until its billing floor. The
// host is wiped, shows Retiring with the date, and goes with its server.
func TestRequirement000_TerminateAtTheFloor(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 3})
	f.awaitPool(3)
	f.scale(1)
	f.awaitRunning(1)
	id := f.onlyOwned()
	floor := time.Now().Add(time.Hour)
	f.world.Vendor().SetFloor(id, floor)
	f.annotate(infrav1.ReleasePolicyAnnotation, "terminate")
	before := f.world.Vendor().Journal(0)

	f.scale(0)
	f.await("no Machine and no Node, below the floor", func() (string, bool) {
		machines, infra, nodes := len(f.machines()), len(f.infraMachines()), len(f.nodes())
		return fmt.Sprintf("%d Machines, %d infra machines, %d Nodes", machines, infra, nodes), machines+infra+nodes == 0
	})
	f.awaitRetiring(id, floor)
	f.checkGivenBack(id, before[len(before)-1].Seq)

	f.world.Vendor().SetFloor(id, time.Now())
	f.await("the server and its Host to be gone", func() (string, bool) {
		_, there := f.world.Vendor().Server(id)
		hosts := f.hosts()
		listed := slices.ContainsFunc(hosts, func(h infrav1.ScalewayAppleSiliconHost) bool { return h.Spec.ServerID == id })
		return fmt.Sprintf("server there: %v, %s", there, f.phases()), !there && !listed && len(hosts) == 2
	})
	f.awaitPool(2)
}

// onlyOwned is the server of the only claimed host.
func (f *fleet) onlyOwned() string {
	f.Helper()
	owners := f.owners()
	if len(owners) != 1 {
		f.Fatalf("hosts with owners: %v, want one", owners)
	}
	for id := range owners {
		return id
	}
	return ""
}

// annotate annotates every infra machine.
func (f *fleet) annotate(key, value string) {
	f.Helper()
	for _, machine := range f.infraMachines() {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
		if err := f.client.Patch(f.Context(), &machine, patch); err != nil {
			f.Fatalf("annotating %s: %v", machine.Name, err)
		}
	}
}

// awaitRetiring waits until the server's Host says that it is Retiring, and until when.
func (f *fleet) awaitRetiring(id string, floor time.Time) {
	f.Helper()
	date := floor.UTC().Format(time.RFC3339)
	f.await("the Host to be Retiring with the date "+date, func() (string, bool) {
		for _, host := range f.hosts() {
			if host.Spec.ServerID != id {
				continue
			}
			retired := meta.FindStatusCondition(host.Status.Conditions, "Retired")
			if retired == nil {
				return string(host.Status.Phase), false
			}
			return fmt.Sprintf("%s, %s: %s", host.Status.Phase, retired.Reason, retired.Message),
				host.Status.Phase == infrav1.HostRetiring && strings.Contains(retired.Message, date)
		}
		return "no Host", false
	})
}

// checkGivenBack checks the calls that changed the server: the reinstall, the refused
// deletion, the scheduled one, in this order and each once, and nothing else.
func (f *fleet) checkGivenBack(id string, after int64) {
	f.Helper()
	var got []string
	for _, entry := range f.world.Vendor().Journal(after) {
		if entry.Method == http.MethodGet {
			continue
		}
		if entry.ServerID != id {
			f.Errorf("another server was changed: %+v", entry)
		}
		got = append(got, fmt.Sprintf("%s %d", entry.Call, entry.Status))
		if entry.Call == "UpdateServer" && !strings.Contains(string(entry.Body), `"schedule_deletion":true`) {
			f.Errorf("the update asks for %s", entry.Body)
		}
	}
	want := []string{"ReinstallServer 200", "DeleteServer 412", "UpdateServer 200"}
	if !slices.Equal(got, want) {
		f.Errorf("the vendor was asked for %v, want %v", got, want)
	}
	if server := f.server(id); !server.DeletionScheduled || server.Status == scaleway.StatusError {
		f.Errorf("the server is %+v", server)
	}
}
