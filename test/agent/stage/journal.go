package stage

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/tart"
)

// Call is one invocation of tart.
type Call struct {
	PID   int
	Args  []string
	Env   []string
	Start time.Time
	// End is zero when it runs still, or was killed.
	End  time.Time
	Exit int
}

// Verb is the first argument.
func (c Call) Verb() string {
	if len(c.Args) == 0 {
		return ""
	}
	return c.Args[0]
}

// Machine of ours among its arguments, if there is one.
func (c Call) Machine() string { return machineIn(c.Args) }

func (m *Mac) journal() string { return m.Path("tart-calls.jsonl") }

// Calls are all invocations of tart on this Mac so far, in the order of their start.
func (m *Mac) Calls() ([]Call, error) {
	f, err := os.Open(m.journal())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening the journal of tart: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	var calls []Call
	latest := map[int]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r tart.Record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // half a line is of a process that was killed
		}
		switch r.Event {
		case "start":
			latest[r.PID] = len(calls)
			calls = append(calls, Call{PID: r.PID, Args: arguments(r.Argv), Env: r.Env, Start: r.Time})
		case "end":
			if i, known := latest[r.PID]; known && r.Exit != nil {
				calls[i].End, calls[i].Exit = r.Time, *r.Exit
			}
		}
	}
	return calls, lines.Err()
}

// arguments are without the program.
func arguments(argv []string) []string {
	if len(argv) > 0 && strings.HasSuffix(argv[0], "tart") {
		return argv[1:]
	}
	return argv
}
