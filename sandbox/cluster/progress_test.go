package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRemaining(t *testing.T) {
	for _, tc := range []struct {
		name               string
		done, total, cores int
		compiling          time.Duration
		min, max           time.Duration
	}{
		// Measured: 251 to 295 s from nothing on two cores.
		{name: "from nothing on two cores", total: 2911, cores: 2, min: 4 * time.Minute, max: 6 * time.Minute},
		{name: "more cores", total: 2911, cores: 8, min: time.Minute, max: 2 * time.Minute},
		{name: "a slow machine shows", done: 1455, total: 2911, cores: 2, compiling: 10 * time.Minute, min: 6 * time.Minute, max: 10 * time.Minute},
		{name: "only linking is left", done: 2911, total: 2911, cores: 2, compiling: 5 * time.Minute, min: linkTime, max: linkTime},
		{name: "nothing to compile", cores: 2, min: linkTime, max: linkTime},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := remaining(tc.done, tc.total, tc.cores, tc.compiling); got < tc.min || got > tc.max {
				t.Errorf("remaining is %s, want %s to %s", got, tc.min, tc.max)
			}
		})
	}
}

func TestProgressReads(t *testing.T) {
	for want, p := range map[string]Progress{
		"another build of the control plane is running, waiting for it":                                            {Stage: StageWaiting},
		"compiling the control plane: 12 of 2911 packages, about 5 min left":                                       {Stage: StageCompiling, Done: 12, Total: 2911, Remaining: 290 * time.Second},
		"compiling the control plane: 2000 of 2911 packages, about 45 s left":                                      {Stage: StageCompiling, Done: 2000, Total: 2911, Remaining: 44 * time.Second},
		"linking the control plane, about 25 s left":                                                               {Stage: StageLinking, Remaining: 25 * time.Second},
		"built the control plane in 4m11s":                                                                         {Stage: StageDone, Elapsed: 251 * time.Second},
		"downloading modules of the control plane (building it takes 5 to 10 minutes on two cores the first time)": {Stage: StageResolving},
	} {
		if got := p.String(); got != want {
			t.Errorf("%s reads %q, want %q", p.Stage, got, want)
		}
	}
}

func TestLineWriterJoinsPieces(t *testing.T) {
	var lines []string
	w := &lineWriter{line: func(line string) { lines = append(lines, line) }}
	for _, piece := range []string{"k8s.io/", "api\nk8s.io/client-go\n\nsigs", ".k8s.io"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatalf("wrote %d of %d, %v", n, len(piece), err)
		}
	}
	if diff := cmp.Diff([]string{"k8s.io/api", "k8s.io/client-go", ""}, lines); diff != "" {
		t.Error(diff)
	}
}
