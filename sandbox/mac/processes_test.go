package mac

import (
	"strings"
	"testing"
)

func TestProcesses(t *testing.T) {
	b := startBench(t, nil)
	b.grant()
	b.daemon("exec sleep 7777", keepAlive)
	b.root("launchctl bootstrap system " + plistPath)
	await(t, "the job to run", func() bool { return b.sh("pgrep -f 'sleep 7777'", "").rc == 0 })
	tests := []struct {
		name, script, want string
		rc                 int
	}{
		{"nobody", "pgrep -f 'tart run '", "", 1},
		{"launchd is the first", "pgrep -x launchd; ps -p 1 -o pid=,args=", "1\n    1 /sbin/launchd", 0},
		{"by name and owner", "pgrep -u m1 sleep >/dev/null && ps -axo user=,args= | grep -c '^m1 *sleep 7777'", "1", 0},
		{"a header", "ps -p 1 -o pid,ppid,comm", "  PID  PPID COMM\n    1     0 /sbin/launchd", 0},
		{"what processes use", "ps -axo pid=,ppid=,rss=,time=,comm= | grep -c '^ *1 *0 *[1-9][0-9]* *[0-9]*:[0-5][0-9][.][0-9][0-9] /sbin/launchd$'", "1", 0},
		{"memory", "vm_stat | head -n 1; vm_stat | grep -c '^Pages active: *[1-9][0-9]*[.]$'; vm_stat | grep 'wired'", "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n1\nPages wired down:                        131072.", 0},
		{"root's process", "/bin/kill 1", "", 1},
		{"no such process", "/bin/kill -0 99999", "", 1},
		{"none of that name", "killall none", "", 1},
		{"killed by name", "sleep 8888 & until pgrep -f '^sleep 8888' >/dev/null; do :; done; killall sleep; wait $!; echo $?", "143", 0},
		{"pkill", "sleep 8888 & until pkill -KILL -f 'sleep 8888'; do :; done; wait $! 2>/dev/null; echo $?", "137", 0},
	}
	for _, tt := range tests {
		if got := b.sh(tt.script, ""); strings.TrimRight(got.out, "\n") != tt.want || got.rc != tt.rc {
			t.Errorf("%s: %+v, want %q and rc %d", tt.name, got, tt.want, tt.rc)
		}
	}
	if u := b.Unmodelled(); len(u) != 0 {
		t.Errorf("unmodelled: %+v", u)
	}
}
