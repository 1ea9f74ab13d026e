package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
)

func TestRestartCountsOfRecords(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyAlways, "one", "two")
	r := Record{UID: "u", Inits: make([]ContainerRecord, 2)}
	r.Inits[0].Begun, r.Inits[0].Exit = time.Unix(1, 0), &Exit{Of: "init-0"}
	r.Inits[1].Begun = time.Unix(2, 0)
	r = r.Ended(p, Exit{Code: 1, Of: "init-1"}).Next(p)
	got := []int32{r.Restarts, r.Inits[0].Restarts, r.Inits[1].Restarts}
	if d := cmp.Diff([]int32{0, 1, 1}, got); d != "" {
		t.Errorf("restarts after init failed (-want +got):\n%s", d)
	}
	r = r.Ended(p, Exit{Unstarted: true}).Next(p)
	got = []int32{r.Restarts, r.Inits[0].Restarts, r.Inits[1].Restarts}
	if d := cmp.Diff([]int32{0, 1, 1}, got); d != "" {
		t.Errorf("restarts after nothing ran (-want +got):\n%s", d)
	}
	if r.Attempt != 2 || r.Outcome != nil {
		t.Errorf("record %+v", r)
	}
}

// The worker may not have noted yet that an init container is done when the VM is stopped with
// its Pod: the end is that of the container after it (chaos seed 5).
func TestAnInitContainerBeforeTheEndHasSucceeded(t *testing.T) {
	p := podtest.Job(corev1.RestartPolicyAlways, "one", "two")
	begun, ended := time.Unix(1, 0), time.Unix(9, 0)
	for of, want := range map[string][]bool{MainID: {true, true}, "init-1": {true, false}} {
		r := Record{UID: "u", Inits: []ContainerRecord{{Begun: begun}, {Begun: begun}}}
		r = r.Ended(p, Exit{Code: 137, Of: of, Finished: ended})
		for i, succeeded := range want {
			e := r.Inits[i].Exit
			if e == nil || (e.Code == 0 && e.Reason == ReasonCompleted) != succeeded || succeeded && (e.Started != begun || e.Finished != ended || e.Of != CommandIDs(p, false)[i]) {
				t.Errorf("the end of %s: init container %d ended as %+v", of, i, e)
			}
		}
	}
}

func TestMachineNames(t *testing.T) {
	for _, c := range []struct {
		name    string
		uid     types.UID
		attempt int
		ours    bool
	}{
		{VMName("0b1c-2d", 3), "0b1c-2d", 3, true},
		{"tk-0b1c-x", "", 0, false},
		{"tk-3", "", 0, false},
		{"base", "", 0, false},
		{"mytk-a-0", "", 0, false},
	} {
		uid, attempt, ours := ParseVMName(c.name)
		if uid != c.uid || attempt != c.attempt || ours != c.ours {
			t.Errorf("%s: %q %d %v", c.name, uid, attempt, ours)
		}
	}
}
