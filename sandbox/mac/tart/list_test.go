package tart

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListDialects(t *testing.T) {
	t.Parallel()
	tests := []struct {
		version string
		keys    []string
		column  string // a disk of 1 GB and some bytes, in text
	}{
		{"2.28.0", []string{"Source", "Name", "Disk", "Size", "SizeOnDisk", "Running", "State"}, `\b1\s+0\b`},
		{"2.32.1", []string{"Source", "Name", "Disk", "Size", "Accessed", "Running", "State"}, `\b1\s+0\b`},
		{"2.35.0", []string{"Source", "Name", "Disk", "Size", "Accessed", "Running", "State"}, `\b1\s+0\b`},
		{"2.36.0", []string{"Source", "Name", "Disk", "Size", "Accessed", "Running", "State"}, `\b1 GB\s+[0-9]+ kB`},
	}
	for _, tt := range tests {
		t.Run(tt.version, func(t *testing.T) {
			t.Parallel()
			m := cloned(t, &Plan{Version: tt.version}, "b", "a")
			m.boot("b")
			out := m.must("list", "--format", "json")
			var rows []map[string]any
			if err := json.Unmarshal([]byte(out), &rows); err != nil {
				t.Fatalf("%v in %s", err, out)
			}
			var names []string
			for _, row := range rows {
				names = append(names, row["Name"].(string))
			}
			if len(names) != 4 || !slices.Equal(names[:3], []string{"a", "b", testImage}) || !strings.Contains(names[3], "@sha256:") {
				t.Errorf("names %v", names)
			}
			if rows[0]["Running"] != false || rows[1]["Running"] != true || rows[1]["State"] != "running" {
				t.Errorf("states of %v", rows[:2])
			}
			if diff := cmp.Diff(tt.keys, keysIn(out)); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			if !strings.Contains(out, `"registry.test\/macos`) {
				t.Errorf("slashes are not escaped as Swift does: %s", out)
			}
			if text := m.must("list", "--source", "local"); !regexp.MustCompile(tt.column).MatchString(text) {
				t.Errorf("text does not match %s:\n%s", tt.column, text)
			}
			if got := m.must("--version"); got != tt.version+"\n" {
				t.Errorf("version %q", got)
			}
		})
	}
}

// keysIn are the keys of the first object, in order.
func keysIn(out string) []string {
	first, _, _ := strings.Cut(out, "}")
	var keys []string
	for _, m := range regexp.MustCompile(`"(\w+)" : `).FindAllStringSubmatch(first, -1) {
		keys = append(keys, m[1])
	}
	return keys
}

func TestGetHasOtherTypesThanList(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	var got map[string]any
	if err := json.Unmarshal([]byte(m.must("get", "vm", "--format", "json")), &got); err != nil {
		t.Fatal(err)
	}
	if size, ok := got["Size"].(string); !ok || !regexp.MustCompile(`^0\.\d{3}$`).MatchString(size) {
		t.Errorf("Size is %v, want a string with three decimals", got["Size"])
	}
	delete(got, "Size")
	want := map[string]any{
		"OS": "darwin", "CPU": 4.0, "Memory": 4096.0, "Disk": 1.0, "DiskFormat": "raw",
		"Display": "1024x768", "Running": false, "State": "stopped",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestListFaults(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Faults: []Fault{{Kind: ListTruncated, Times: 1}, {Kind: ListHangs, After: 1}}}, "vm")
	cut := m.do("list", "--format", "json") // the first occasion of both
	if cut.code != 0 || json.Valid([]byte(cut.out)) || !strings.HasPrefix(cut.out, "[") {
		t.Errorf("truncated: %+v", cut)
	}
	hung := m.start("list")
	await(t, "list has begun twice", func() bool { return m.starts("list") == 2 })
	if hung.ended() {
		t.Error("list did not hang")
	}
	hung.signal(syscall.SIGINT)
	if code := hung.wait(); code != 1 {
		t.Errorf("interrupted: exit %d", code)
	}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.env = append(m.env, "TART_REGISTRY_PASSWORD=hunter2")
	run := m.boot("vm")
	m.do("stop", "nobody")
	run.signal(syscall.SIGKILL)
	run.wait()
	records, text := m.records()
	if strings.Contains(text, "hunter2") {
		t.Error("the journal holds a value of the environment")
	}
	type line struct {
		Event, Command string
		Exit           int
	}
	var got []line
	for _, r := range records {
		switch {
		case r.Event == EventEnd:
			got = append(got, line{Event: "end", Exit: *r.Exit})
		case r.Event == EventDownload:
			got = append(got, line{Event: r.Event})
		default:
			got = append(got, line{Event: "start", Command: strings.Join(r.Argv[1:], " ")})
			if !slices.Contains(r.Env, "TART_HOME") || r.PID == 0 || r.Dir == "" || r.Time.IsZero() {
				t.Errorf("incomplete: %+v", r)
			}
		}
	}
	want := []line{
		{Event: "start", Command: "clone " + testImage + " vm"},
		{Event: "download"},
		{Event: "end"},
		{Event: "start", Command: "run vm --no-graphics"},
		{Event: "start", Command: "stop nobody"},
		{Event: "end", Exit: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a killed run has no end (-want +got):\n%s", diff)
	}
}

// records reads the journal; a line that is still being written is left out.
func (m *fakeMac) records() ([]Record, string) {
	m.t.Helper()
	data, err := os.ReadFile(m.path("home", ".journal.jsonl"))
	if err != nil {
		return nil, ""
	}
	var records []Record
	for line := range strings.Lines(string(data)) {
		var r Record
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			m.t.Fatalf("%v in %s", err, line)
		}
		records = append(records, r)
	}
	return records, string(data)
}

// starts counts the invocations of a command so far.
func (m *fakeMac) starts(command string) int {
	n := 0
	records, _ := m.records()
	for _, r := range records {
		if len(r.Argv) > 1 && r.Argv[1] == command {
			n++
		}
	}
	return n
}
