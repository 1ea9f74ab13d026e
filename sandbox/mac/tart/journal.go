package tart

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"
)

// Record is one line of the journal. Every invocation writes a start, and an end
// with the same PID unless it was killed. Guests are not invocations.
type Record struct {
	Event string    `json:"event"` // "start" or "end"
	PID   int       `json:"pid"`
	Time  time.Time `json:"time"`
	// Argv, Env (names only, sorted) and Dir are in the start.
	Argv []string `json:"argv,omitempty"`
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"`
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
