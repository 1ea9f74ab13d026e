package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/macfleet/macfleet/api/controlplane/v1alpha1"
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
)

const (
	// listsAtRest is how many lists must change nothing.
	listsAtRest = 5
	// sweepsEvery is the chart's reclaimInterval in the sandbox.
	sweepsEvery = 10 * time.Second
	// claimCalls is what a claim may cost at the vendor: read, rename, read back, and
	// read when the name has settled.
	claimCalls = 4
	// lateReading: a rename is decided by a reading of the last three seconds, and an older
	// one is read again. The vendor sees a reading somewhat later than it was asked for.
	lateReading = 2 * time.Second
)

// nothingHappensAtRest holds a fleet that runs to its silence: no list, and no sweep
// for strays, writes to an object of ours, and the vendor is asked for lists alone.
func (f *fleet) nothingHappensAtRest() {
	f.awaitRest()
	before := f.versions()
	after := f.lastCall()
	var calls []scaleway.Entry
	f.await("lists and a sweep", func() (string, bool) {
		calls = f.world.Vendor().Journal(after)
		lists := completeLists(calls)
		swept := len(lists) > 0 && lists[len(lists)-1].Time.Sub(lists[0].Time) > sweepsEvery
		return fmt.Sprint(len(lists), " lists"), len(lists) > listsAtRest && swept
	})
	if diff := cmp.Diff(before, f.versions()); diff != "" {
		f.Errorf("written at rest (-before +after):\n%s", diff)
	}
	names := map[string]int{}
	for _, call := range calls {
		names[call.Call]++
	}
	if names["ListServers"] != len(calls) {
		f.Errorf("asked at rest: %v, want nothing but lists", names)
	}
}

// awaitRest waits until one list has passed without a write.
func (f *fleet) awaitRest() {
	f.Helper()
	since, versions := f.lastCall(), f.versions()
	f.await("rest", func() (string, bool) {
		if len(completeLists(f.world.Vendor().Journal(since))) < 2 {
			return "no list yet", false
		}
		seen := versions
		since, versions = f.lastCall(), f.versions()
		diff := cmp.Diff(seen, versions)
		return diff, diff == ""
	})
}

// aClaimCostsFewCalls counts what the vendor was asked about each claimed server
// since its delivery: all of it was for the one claim, and came before the first
// push or not at all. A reading that a busy machine held up for so long that it was made
// again costs nothing.
func (f *fleet) aClaimCostsFewCalls() {
	owners := f.owners()
	if len(owners) == 0 {
		f.Fatal("nothing is claimed")
	}
	for id, owner := range owners {
		var last scaleway.Entry
		var asked []string
		calls, renames := 0, 0
		for _, call := range f.world.Vendor().Journal(0) {
			if call.ServerID != id {
				continue
			}
			asked = append(asked, call.Call)
			again := renames == 0 && call.Call == "GetServer" && last.Call == call.Call && call.Time.Sub(last.Time) > lateReading
			if !again {
				calls++
			}
			if call.Call == "UpdateServer" {
				renames++
			}
			last = call
		}
		if calls > claimCalls || renames != 1 {
			f.Errorf("the claim of %s took %d calls and %d renames, want %d at most and one: %s", owner, calls, renames, claimCalls, strings.Join(asked, " "))
		}
	}
}

// versions are the resourceVersions of every object that the manager could write,
// the Secrets of bootstraps included.
func (f *fleet) versions() map[string]string {
	f.Helper()
	versions := map[string]string{}
	for _, list := range []client.ObjectList{
		&infrav1.ScalewayAppleSiliconHostList{}, &infrav1.ScalewayAppleSiliconMachineList{},
		&infrav1.ScalewayAppleSiliconClusterList{}, &infrav1.ScalewayAppleSiliconMachineTemplateList{},
		&infrav1.MacNodeProfileList{}, &controlplanev1.ExternalControlPlaneList{},
	} {
		f.list(list)
		f.note(versions, list)
	}
	secrets := &corev1.SecretList{}
	f.list(secrets, client.InNamespace(world.Namespace))
	f.note(versions, secrets)
	return versions
}

func (f *fleet) note(versions map[string]string, list client.ObjectList) {
	f.Helper()
	noted := 0
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		versions[fmt.Sprintf("%T %s", object, client.ObjectKeyFromObject(object))] = object.GetResourceVersion()
		noted++
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	if noted == 0 {
		f.Fatalf("there is nothing to watch in a %T", list)
	}
}

// lastCall is the number of the newest request that the vendor has answered.
func (f *fleet) lastCall() int64 {
	journal := f.world.Vendor().Journal(0)
	if len(journal) == 0 {
		return 0
	}
	return journal[len(journal)-1].Seq
}

// completeLists are the lists of servers that were answered well. A sandbox's few
// servers are on one page.
func completeLists(calls []scaleway.Entry) (lists []scaleway.Entry) {
	for _, call := range calls {
		if call.Call == "ListServers" && call.Status == http.StatusOK {
			lists = append(lists, call)
		}
	}
	return lists
}
