package host

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
	"github.com/macfleet/macfleet/internal/host"
)

// calls keeps the events of calls to the vendor, as the API would: those that agree but in
// their notes are one.
type calls struct {
	mu    sync.Mutex
	notes []string
	times map[string]int
}

func (c *calls) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	if reason != eventAsked && reason != eventRefused && reason != eventUnanswered {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	about := regarding.(*host.Host)
	key := fmt.Sprint(about.Name, about.ResourceVersion, kind, reason, action)
	if c.times == nil {
		c.times = map[string]int{}
	}
	if c.times[key]++; c.times[key] == 1 {
		c.notes = append(c.notes, kind+" "+reason+" "+fmt.Sprintf(note, args...))
	}
}

func (c *calls) told(t *testing.T, want ...string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if diff := cmp.Diff(want, c.notes); diff != "" {
		t.Errorf("events of calls (-want +got):\n%s", diff)
	}
	c.notes = nil
}

func TestEachCallThatChangesAServerIsTold(t *testing.T) {
	w, told := inUse(t), &calls{}
	w.r.Recorder = told
	refused := 0
	w.cloud.Fault = func(call cloudtest.Call) (before, after error) {
		if call.Name == "RenameServer" && refused < 3 {
			refused++
			return cloudtest.Err(cloud.KindTransient), nil
		}
		return nil, nil
	}
	w.release()
	w.wiped()
	told.told(t,
		`Normal VendorAsked reinstall it with the default image of its type: taken`,
		`Warning VendorRefused name it "`+poolName+`": refused: `+cloud.Said(cloudtest.Err(cloud.KindTransient)),
		`Normal VendorAsked name it "`+poolName+`": taken`,
	)
	if refused != 3 {
		t.Errorf("refused %d times", refused)
	}
	w.claim("m-2", "t-2")
	w.untilPhase(infrav1.HostInUse)
	told.told(t, `Normal VendorAsked name it "m-2": taken`)

	h := w.host()
	h.Spec.Reboot = &infrav1.RebootRequest{ID: "r", Reason: "hangs", Force: true}
	w.must(w.client.Update(w.ctx, h))
	w.until("rebooted", func() bool { return w.host().Status.LastReboot.ID == "r" })
	told.told(t, `Normal VendorAsked reboot it: taken`)
}

// A server that restarts already, or is gone, needs no reboot: that refusal counts as taken.
func TestARebootThatIsNotNeededIsNoRefusal(t *testing.T) {
	w, told := inUse(t), &calls{}
	w.r.Recorder = told
	w.cloud.Fault = func(call cloudtest.Call) (before, after error) {
		if call.Name == "RebootServer" {
			return cloudtest.Err(cloud.KindTransient), nil
		}
		return nil, nil
	}
	h := w.host()
	h.Spec.Reboot = &infrav1.RebootRequest{ID: "r", Reason: "hangs", Force: true}
	w.must(w.client.Update(w.ctx, h))
	w.until("rebooted", func() bool { return w.host().Status.LastReboot.ID == "r" })
	told.told(t, `Normal VendorAsked reboot it: none is needed: `+cloud.Said(cloudtest.Err(cloud.KindTransient)))
}

func TestADeletionIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		floor bool
		want  string
	}{
		"at once":               {false, "Normal VendorAsked delete it: taken"},
		"for its billing floor": {true, "Normal VendorAsked delete it: taken, for its billing floor"},
	} {
		t.Run(name, func(t *testing.T) {
			w, told := inUse(t), &calls{}
			w.cloud.Floor = c.floor
			w.release()
			h := w.host()
			h.Spec.Release.Policy = infrav1.Terminate
			w.must(w.client.Update(w.ctx, h))
			w.r.Recorder = told
			w.until("deleted", func() bool { return strings.Contains(fmt.Sprint(w.mutations()), "DeleteServer") })
			told.told(t, `Normal VendorAsked reinstall it with the default image of its type: taken`, c.want)
		})
	}
}

// An order whose answer is lost may have been taken: nobody is told that it was refused.
func TestAnOrderIsTold(t *testing.T) {
	w, told := ordering(t), &calls{}
	w.r.Recorder = told
	lost := false
	w.cloud.Fault = func(call cloudtest.Call) (before, after error) {
		if call.Name == "CreateServer" && !lost {
			lost = true
			return nil, cloudtest.Err(cloud.KindUnavailable)
		}
		return nil, nil
	}
	_, err := w.look()
	w.must(err)
	told.told(t, `Warning VendorUnanswered make server "m-9" of type M2-L: it may have come through: `+cloud.Said(cloudtest.Err(cloud.KindUnavailable)))
}
