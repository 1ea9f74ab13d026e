package oracle

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// recorded is what the hollow kubelet told of a few plays of seed 1, by their names.
const (
	recorded     = "testdata/kubelet.json"
	recordedSeed = 1
)

// few are the plays that are compared with the record: different ends, init containers, a probe, a hook, a sidecar.
func few() []play {
	return slices.DeleteFunc(generate(recordedSeed, 40), func(p play) bool {
		return !slices.Contains([]string{
			"001-never-ignores", "007-always-obeys-init-ready", "013-always-obeys-unready", "015-always-fails",
			"016-never-nosuchimage-unready", "018-never-noconfig-ready", "021-never-succeeds-sidecar", "031-never-complains-initfails",
		}, p.name)
	})
}

// record writes down what was told of few.
func (h *theatre) record(told func(play) story) {
	h.Helper()
	stories := map[string]story{}
	for _, p := range few() {
		stories[p.name] = told(p)
	}
	text, err := json.MarshalIndent(stories, "", " ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(recorded), 0o755)
	}
	if err == nil {
		err = os.WriteFile(recorded, append(text, '\n'), 0o644)
	}
	if err != nil {
		h.Error(err)
	}
}

// mostPlays is how often a Pod is played: on a busy machine a state that lasts for an instant
// is not written, by a kubelet neither; what differs by itself differs each time.
const mostPlays = 3

// eventsLate is how long after the end of a Pod its events may come: they are sent beside all else.
const eventsLate = 20 * time.Second

// TestAFewPodsAsRecorded plays a few Pods on Macs, and wants each told as the hollow kubelet told it.
func TestAFewPodsAsRecorded(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := map[string]story{}
	if err := json.Unmarshal(text, &kubelet); err != nil {
		t.Fatal(err)
	}
	h := newTheatre(t)
	var mu sync.Mutex
	pods := map[string]*corev1.Pod{}
	plays := few()
	if len(plays) != len(kubelet) {
		t.Fatalf("%d Pods of the seed have the names of the record's %d: make the record anew, as CONTRIBUTING.md says", len(plays), len(kubelet))
	}
	h.onMacs((len(plays)+1)/2, plays, func(p play, mac string) {
		for range mostPlays {
			pod := h.on(p, mac)
			mu.Lock()
			pods[p.name] = pod
			mu.Unlock()
			within, cancel := context.WithTimeout(h.Context(), eventsLate)
			err := stage.Await(within, "the story", func() bool { return differ(kubelet[p.name], h.told(pod), rules()) == "" })
			cancel()
			if err == nil {
				return
			}
		}
	})
	for _, p := range plays {
		if d := differ(kubelet[p.name], h.told(pods[p.name]), rules()); d != "" {
			t.Errorf("%s (-kubelet +agent):\n%s", p.name, d)
		}
	}
}
