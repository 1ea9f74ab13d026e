package tart

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"
)

// The events of the journal.
const (
	EventStart = "start" // an invocation begins
	EventEnd   = "end"   // and ends, unless it was killed
	// EventDownload is an image that comes over the network, whatever asked for it.
	EventDownload = "download"
	// EventReplaced is a VM that clone, rename or import took the name of while it ran.
	EventReplaced = "replaced-running"
	// EventSecondRun is a run that found its VM running.
	EventSecondRun = "second-run"
)

// Record is one line of the journal. Guests are not invocations.
type Record struct {
	Event string    `json:"event"`
	PID   int       `json:"pid"`
	Time  time.Time `json:"time"`
	// Argv, Env (names only, sorted) and Dir are in the start.
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
	// Name of the VM, or the image by its digest, in what is neither.
	Name string `json:"name,omitempty"`
	// Exit is in the end.
	Exit *int `json:"exit,omitempty"`
}

// journal is the path of the file. A journal that cannot be written must not change
// what tart does; the assertions that read it will miss the record.
type journal string

// begin records the start and returns what records the end.
func (j journal) begin(argv []string) (end func(code int)) {
	dir, _ := os.Getwd()
	j.write(Record{Event: "start", PID: os.Getpid(), Time: time.Now(), Argv: argv, Env: environmentNames(), Dir: dir})
	return func(code int) {
		j.write(Record{Event: "end", PID: os.Getpid(), Time: time.Now(), Exit: &code})
	}
}

// note records what happened within an invocation.
func (j journal) note(event, name string) {
	j.write(Record{Event: event, PID: os.Getpid(), Time: time.Now(), Name: name})
}

// write appends the line in one call, which O_APPEND keeps whole.
func (j journal) write(r Record) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	f, err := os.OpenFile(string(j), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return
	}
	_, _ = f.Write(append(line, '\n'))
	_ = f.Close()
}

func environmentNames() []string {
	var names []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
