package newsyslog

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		line string
		want Entry
		bad  string
	}{
		{
			"/var/log/x.log m1:staff 640 5 1000 * NZ /var/run/x.pid 30",
			Entry{"/var/log/x.log", "m1:staff", 0o640, 5, 1000, "*", "NZ", "/var/run/x.pid", 30},
			"",
		},
		{"/var/log/x.log 644 5 1000 * J", Entry{"/var/log/x.log", "", 0o644, 5, 1000, "*", "J", "", 1}, ""},
		{"/var/log/x.log 644 5 * $D0 /var/run/x.pid", Entry{"/var/log/x.log", "", 0o644, 5, 0, "$D0", "", "/var/run/x.pid", 1}, ""},
		{"/var/log/x.log 644 5", Entry{}, "missing fields"},
		{"var/log/x.log 644 5 1000 *", Entry{}, "malformed"},
		{"/var/log/x.log 698 5 1000 *", Entry{}, "bad permissions"},
		{"/var/log/x.log 644 five 1000 *", Entry{}, "bad count"},
		{"/var/log/x.log 644 5 1M *", Entry{}, "bad size"},
		{"/var/log/x.log 644 5 1000 daily", Entry{}, "malformed at"},
		{"/var/log/x.log 644 5 1000 * Q", Entry{}, "illegal flag"},
		{"/var/log/x.log 644 5 1000 * J /var/run/x.pid 99", Entry{}, "bad signal"},
		{"/var/log/x.log 644 5 1000 * J /var/run/x.pid 1 more", Entry{}, "too many"},
	}
	for _, tt := range tests {
		got, err := parse("# a comment\n\n" + tt.line + " # more\n")
		switch {
		case tt.bad != "" && (err == nil || !strings.Contains(err.Error(), tt.bad)):
			t.Errorf("%s: %v, want %q", tt.line, err, tt.bad)
		case tt.bad == "" && (err != nil || !slices.Equal(got, []Entry{tt.want})):
			t.Errorf("%s: %+v, %v", tt.line, got, err)
		}
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	log, pid, conf := filepath.Join(dir, "x.log"), filepath.Join(dir, "x.pid"), filepath.Join(dir, "x.conf")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(conf, fmt.Sprintf("%s m1:staff 640 2 1 * - %s 30\n", log, pid))
	write(pid, "42\n")
	var did []string
	o := Options{
		Own:    func(path, owner string) error { did = append(did, "own "+filepath.Base(path)+" "+owner); return nil },
		Signal: func(pid, signal int) error { did = append(did, fmt.Sprint("signal ", pid, " ", signal)); return nil },
	}
	write(log, strings.Repeat("1", 2000))
	writer, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	dry := Run(o, []string{"-nvv", "-f", conf})
	if dry.RC != 0 || !strings.Contains(dry.Stdout, "trimming log") || len(did) != 0 {
		t.Fatalf("dry: %+v, did %v", dry, did)
	}
	for range 4 {
		if got := Run(o, []string{"-f", conf}); got.RC != 0 {
			t.Fatalf("run: %+v", got)
		}
		if _, err := writer.WriteString("late"); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"own x.log m1:staff", "signal 42 30"}
	if !slices.Equal(did, want) {
		t.Errorf("did %v, want %v", did, want)
	}
	for name, size := range map[string]int64{"x.log": 0, "x.log.0": 2000 + 4*4} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() != size {
			t.Errorf("%s: %v, %v, want %d bytes", name, info, err, size)
		}
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the new log: %v, %v", info, err)
	}
	for range 3 {
		write(log, strings.Repeat("2", 2000))
		Run(o, []string{"-f", conf})
	}
	if logs, _ := filepath.Glob(log + "*"); len(logs) != 3 {
		t.Errorf("kept %v", logs)
	}
}

func TestRefusals(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "x.conf")
	if err := os.WriteFile(conf, []byte("/var/log/x 644\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		uid, rc int
		line    string
	}{
		{0, 1, "-nvv -f " + conf},
		{501, 1, "-f " + conf},
		{0, 1, "-nvv -f /nowhere.conf"},
		{0, 64, "-C"},
	}
	for _, tt := range tests {
		if got := Run(Options{UID: tt.uid}, strings.Fields(tt.line)); got.RC != tt.rc {
			t.Errorf("%s: %+v", tt.line, got)
		}
	}
}
