package pod

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/checkpoint"
)

// TestACrashAtEachStepOfSeveralContainers plays one story of two containers, with an agent
// that dies at each of its steps in turn: nothing runs twice, and each end is shown.
func TestACrashAtEachStepOfSeveralContainers(t *testing.T) {
	running := func(name string, restarts int32) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			return of(p, name).RestartCount == restarts && of(p, name).State.Running != nil
		}
	}
	steps := []struct {
		what string
		does func(*world)
		then func(*corev1.Pod) bool
	}{
		{"both begin", func(*world) {}, func(p *corev1.Pod) bool { return running("vm", 0)(p) && running("web", 0)(p) }},
		{"one fails", func(w *world) { w.host.exit("c-1", exited(1)) }, running("web", 1)},
		{"the main one succeeds", func(w *world) { w.host.exit("main", exited(0)) }, func(p *corev1.Pod) bool { return hasEnded(of(p, "vm")) }},
		{"one fails again", func(w *world) { w.host.exit("c-1-r1", exited(2)) }, running("web", 2)},
	}
	crashes := map[string]func(w *world, record []byte, shown *corev1.Pod){
		"between": func(*world, []byte, *corev1.Pod) {},
		"before it keeps or shows anything": func(w *world, record []byte, shown *corev1.Pod) {
			if record == nil {
				return // there was nothing before the first step
			}
			w.writeRecord(record)
			w.edit("a", func(p *corev1.Pod) { p.Status = shown.Status })
		},
		"with its record": func(w *world, _ []byte, _ *corev1.Pod) { w.writeRecord([]byte("{torn")) },
	}
	for how, crash := range crashes {
		for at := range steps {
			for _, away := range []bool{false, true} {
				t.Run(how+", when "+steps[at].what, func(t *testing.T) {
					w := newWorld(t, two(corev1.RestartPolicyOnFailure))
					w.startAgent()
					for i, s := range steps {
						var before []byte
						shown := w.pod("a")
						if i > 0 {
							before = w.readRecord()
						}
						if i == at && away && i > 0 {
							w.stopAgent()
							s.does(w)
							w.startAgent()
						} else {
							s.does(w)
						}
						w.awaitPod("a", s.what, s.then)
						if i == at {
							w.stopAgent()
							crash(w, before, shown)
							w.startAgent()
							w.awaitPod("a", "is as before", s.then)
						}
					}
					w.host.exit("c-1-r2", exited(0))
					w.endsOnce(w.awaitPhase(corev1.PodSucceeded))
				})
			}
		}
	}
}

// endsOnce holds the host and the last status to the story.
func (w *world) endsOnce(p *corev1.Pod) {
	w.t.Helper()
	web := of(p, "web")
	if of(p, "vm").RestartCount != 0 || web.RestartCount != 2 || web.State.Terminated.ExitCode != 0 {
		w.t.Errorf("main %+v, web %+v", of(p, "vm"), web)
	}
	if last := web.LastTerminationState.Terminated; last == nil || last.ExitCode != 2 {
		w.t.Errorf("the last end %+v", last)
	}
	for _, id := range []string{"main", "c-1", "c-1-r1", "c-1-r2"} {
		ran := slices.DeleteFunc(w.host.history(), func(l string) bool { return l != "exec tk-uid-a-0 "+id })
		if len(ran) != 1 {
			w.t.Errorf("%s ran %d times: %v", id, len(ran), w.host.history())
		}
	}
}

func (w *world) recordFile() string {
	return filepath.Join(checkpoint.Store(filepath.Join(w.dir, "pods")).Dir("uid-a"), "record.json")
}

// readRecord is the checkpoint of the Pod; nil: there is none.
func (w *world) readRecord() []byte {
	data, err := os.ReadFile(w.recordFile())
	if err != nil {
		return nil
	}
	return data
}

func (w *world) writeRecord(data []byte) {
	w.t.Helper()
	if err := os.WriteFile(w.recordFile(), data, 0o600); err != nil {
		w.t.Fatal(err)
	}
}
