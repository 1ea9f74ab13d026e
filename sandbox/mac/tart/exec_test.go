package tart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/tart/guest"
)

// awaitAgent waits until commands run in a guest.
func (m *fakeMac) awaitAgent(name string) {
	m.t.Helper()
	await(m.t, "the agent of "+name+" is up", func() bool { return m.do("exec", name, "true").code == 0 })
}

// sh runs a script in a guest.
func (m *fakeMac) sh(name, script string) result {
	m.t.Helper()
	return m.do("exec", name, "/bin/sh", "-c", script)
}

func TestCommandsRunInTheGuest(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.boot("vm")
	m.awaitAgent("vm")
	tests := []struct {
		name, script, out, err string
		code                   int
	}{
		{name: "exit code", script: "exit 3", code: 3},
		{name: "both outputs", script: "echo out; echo err >&2", out: "out\n", err: "err\n"},
		{name: "signalled", script: "kill -KILL $$", code: 255},
		{name: "who it is", script: "id -u; echo $USER $HOME; pwd", out: "0\nadmin /Users/admin\n/Users/admin\n"},
		{name: "first of its processes", script: "cut -c1-4 /proc/1/comm", out: "tart\n"},
		{name: "writable places", script: "for d in /Users/admin /tmp /var /opt /etc /Volumes; do echo x >$d/x || exit 1; done"},
		{name: "system is sealed", script: "mkdir /data || touch /usr/x || touch /bin/x", code: 1, err: "Read-only"},
		{name: "macOS links", script: "readlink /tmp /var /etc", out: "private/tmp\nprivate/var\nprivate/etc\n"},
		{name: "nothing of the host", script: "ls -d " + m.dir, code: 2, err: "No such file"},
		{name: "nothing of the host's environment", script: "tr '\\0' '\\n' </proc/1/environ | grep -c TART", out: "0\n", code: 1},
		{name: "one root", script: "cut -d' ' -f5 /proc/self/mountinfo | grep -cx /", out: "1\n"},
		{name: "what a Mac has in /sbin", script: "for c in ping mount shutdown; do command -v $c && echo found $c; done; /sbin/mount >/dev/null && echo mounts", out: "mounts\n"},
		{name: "the agent's environment", script: "echo $PATH $TERM", out: "/bin:/usr/bin:/usr/sbin:/usr/local/bin:/opt/homebrew/bin xterm-256color\n"},
		{name: "sudo", script: "sudo -n echo yes", out: "yes\n"},
		{name: "no such program", script: "exec /nowhere/at-all", code: 127, err: "/nowhere/at-all: "},
		{name: "orphans are reaped", script: "(sleep 0.01 &); sleep 0.1; for i in $(seq 200); do ps -eo stat= | grep -q Z || exit 0; sleep 0.02; done; exit 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := m.sh("vm", tt.script)
			if got.code != tt.code || (got.out != tt.out && tt.err == "") || !strings.Contains(got.err, tt.err) {
				t.Errorf("%+v, want exit %d, %q and %q", got, tt.code, tt.out, tt.err)
			}
		})
	}
}

func TestSharedDirectoriesAppearInTheGuest(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	read, write, own := t.TempDir(), t.TempDir(), t.TempDir()
	m.boot("vm", "--dir", "read:"+read+":ro", "--dir=write:"+write, "--dir", "own:"+own+":tag=own")
	m.awaitAgent("vm")
	if err := os.WriteFile(filepath.Join(read, "later"), []byte("seen"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := m.sh("vm", `cd '/Volumes/My Shared Files' && ls && cat read/later && echo made >write/file`); got.out != "read\nwrite\nseen" {
		t.Errorf("%+v", got)
	}
	if data, err := os.ReadFile(filepath.Join(write, "file")); string(data) != "made\n" {
		t.Errorf("the host sees %q, %v", data, err)
	}
	if got := m.sh("vm", `echo x >'/Volumes/My Shared Files/read/x'`); got.code == 0 {
		t.Error("a read-only share was written to")
	}
}

// unhurried is a plan whose guests wait long for their processes: a trap may run late on a
// busy machine, and the end of the last one ends the wait.
func unhurried() *Plan { return &Plan{ShutdownGrace: Duration(time.Minute)} }

func TestAGuestShutsItselfDown(t *testing.T) {
	t.Parallel()
	m := cloned(t, unhurried(), "vm")
	for _, shutdown := range []string{"/sbin/shutdown -h now", "sudo -n /sbin/shutdown -h now", "/usr/bin/sudo /sbin/halt"} {
		run := m.boot("vm")
		m.awaitAgent("vm")
		m.sh("vm", "trap 'echo asked >/Users/admin/asked; exit' TERM; "+shutdown+"; sleep 600 & wait")
		if code := run.wait(); code != 0 || !strings.Contains(run.out.String(), "guest has stopped the virtual machine\n") {
			t.Errorf("%s: exit %d, %q", shutdown, code, run.out.String())
		}
		if !exists(filepath.Join(string(m.vm("vm")), "control.sock")) {
			t.Error("the control socket is gone: tart leaves it behind")
		}
		if asked := filepath.Join(m.vm("vm").guest(), "disk/Users/admin/asked"); os.Remove(asked) != nil {
			t.Errorf("%s: a process was not asked to end", shutdown)
		}
	}
}

func TestAShutdownIsAnsweredFirst(t *testing.T) {
	t.Parallel()
	m := cloned(t, unhurried(), "vm")
	for range 10 {
		run := m.boot("vm")
		m.awaitAgent("vm")
		waiting := m.start("exec", "vm", "/bin/sh", "-c", "trap 'exit 42' TERM; touch /tmp/waiting; sleep 600 & wait")
		await(t, "the other command runs", func() bool { return exists(filepath.Join(m.vm("vm").guest(), "disk/private/tmp/waiting")) })
		if got := m.do("exec", "vm", "/sbin/shutdown", "-h", "now"); got.code != 0 {
			t.Errorf("shutdown: %+v", got)
		}
		if code := waiting.wait(); code != 42 {
			t.Errorf("the other command: %d, %s", code, waiting.out.String())
		}
		run.wait()
	}
}

func TestAPowerCutEndsEveryProcessOfTheGuest(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"run", "guest", "stop"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			m := cloned(t, nil, "vm")
			shared := t.TempDir()
			run := m.boot("vm", "--dir", "out:"+shared)
			m.awaitAgent("vm")
			command := m.start("exec", "vm", "/bin/sh", "-c", "trap '' TERM HUP; while :; do echo x >>'/Volumes/My Shared Files/out/alive'; sleep 0.01; done")
			alive := filepath.Join(shared, "alive")
			await(t, "the command runs", func() bool { return exists(alive) })
			guest := m.guestPID("vm")
			switch end {
			case "run":
				m.kill(run.cmd.Process.Pid, 9)
			case "guest":
				m.kill(guest, 9)
			case "stop":
				m.must("stop", "vm")
			}
			run.wait()
			await(t, "the guest is gone", func() bool { return gone(guest) })
			if code := command.wait(); code != 1 {
				t.Errorf("the command's stream ended with %d", code)
			}
			if err := os.Remove(alive); err != nil {
				t.Fatal(err)
			}
			if m.must("clone", "vm", "other"); exists(alive) {
				t.Error("a process of the guest outlived it")
			}
		})
	}
}

func TestInputAndTerminals(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.boot("vm")
	m.awaitAgent("vm")
	cmd := m.command(t.Context(), "exec", "-i", "vm", "cat")
	cmd.Stdin = strings.NewReader(strings.Repeat("line\n", 50_000))
	if out, err := cmd.Output(); err != nil || len(out) != 250_000 {
		t.Errorf("%d bytes came back, %v", len(out), err)
	}
	if got := m.do("exec", "vm", "cat"); got.code != 0 || got.out != "" {
		t.Errorf("without input: %+v", got)
	}
	if got := m.do("exec", "-t", "vm", "/bin/sh", "-c", "test -t 0 && test -t 1 && echo terminal >&2"); got.out != "terminal\r\n" {
		t.Errorf("with a terminal: %+v", got)
	}
}

func TestAgentGenerations(t *testing.T) {
	t.Parallel()
	tests := []struct {
		generation guest.Generation
		signalled  int
		missing    result
	}{
		{guest.Old, 255, result{code: 1, err: "executable file not found"}},
		{guest.WithEnv, 255, result{code: 1, err: "executable file not found"}},
		{guest.WithSignals, 143, result{code: 125}},
	}
	for _, tt := range tests {
		t.Run(string(tt.generation), func(t *testing.T) {
			t.Parallel()
			m := cloned(t, &Plan{Agent: tt.generation}, "vm")
			m.boot("vm")
			m.awaitAgent("vm")
			if got := m.sh("vm", "kill -TERM $$"); got.code != tt.signalled {
				t.Errorf("signalled: %+v", got)
			}
			if got := m.do("exec", "vm", "no-such-program"); got.code != tt.missing.code || !strings.Contains(got.err, tt.missing.err) {
				t.Errorf("missing: %+v", got)
			}
			if ip := m.must("ip", "vm", "--resolver", "agent", "--wait", "60"); ip != m.must("ip", "vm") {
				t.Errorf("the agent says %s", ip)
			}
		})
	}
}

func TestNoAgentAnswers(t *testing.T) {
	t.Parallel()
	m := cloned(t, &Plan{Agent: guest.WithSignals, Faults: []Fault{{Kind: AgentNever, Name: "mute"}, {Kind: AgentDrops, Name: "weak", Step: "sleep", Times: 1}}}, "mute", "weak")
	m.boot("mute")
	got := m.do("exec", "mute", "true")
	if got.code != 1 || !strings.HasPrefix(got.err, "Failed to connect to the VM using its control socket") {
		t.Errorf("%+v", got)
	}
	m.boot("weak")
	m.awaitAgent("weak")
	if got := m.do("exec", "weak", "sleep", "0"); got.code != 1 || !strings.Contains(got.err, "lost") {
		t.Errorf("a broken connection: %+v", got)
	}
	m.must("exec", "weak", "sleep", "0")
}

// Each guest is a machine of its own: what listens in one is not in the way of another,
// and is reached from inside only.
func TestEachGuestHasANetworkOfItsOwn(t *testing.T) {
	t.Parallel()
	m := newMac(t, &Plan{})
	for _, name := range []string{"one", "two"} {
		m.must("clone", testImage, name)
		m.boot(name)
	}
	for _, name := range []string{"one", "two"} {
		m.awaitAgent(name)
		got := m.sh(name, "cd /tmp; >heard; (((until grep -q question heard; do sleep 0.02; done; echo from "+name+") | nc -l 8080 >heard) >/dev/null 2>&1 &); for i in $(seq 500); do grep -q ':1F90 ' /proc/net/tcp /proc/net/tcp6 && exit 0; sleep 0.02; done; exit 1")
		if got.code != 0 {
			t.Fatalf("%s: nobody listens: %+v; %s", name, got, m.sh(name, "cat /tmp/heard").out)
		}
	}
	for _, name := range []string{"one", "two"} {
		ip := strings.TrimSpace(m.must("ip", name))
		host := "127.0.0.1"
		if name == "two" {
			host = ip // what listens on all addresses is at the leased one, too
		}
		if got := m.sh(name, "cd /tmp; (echo question; until [ -e answered ]; do sleep 0.02; done) | (nc "+host+" 8080; touch answered)"); got.code != 0 || got.out != "from "+name+"\n" {
			t.Errorf("%s at %s answers %+v", name, host, got)
		}
		if got := m.sh(name, "cat /tmp/heard"); got.out != "question\n" {
			t.Errorf("%s heard %+v", name, got)
		}
		if got := m.sh(name, "nc 127.0.0.1 8080 </dev/null 2>/dev/null"); got.code != 1 || got.out != "" {
			t.Errorf("%s: a port where nobody listens: %+v", name, got)
		}
	}
}

// What macOS has in these places, and not every host.
func TestProgramsOfAGuest(t *testing.T) {
	t.Parallel()
	m := cloned(t, nil, "vm")
	m.boot("vm")
	m.awaitAgent("vm")
	if got := m.sh("vm", "ls /usr/bin/nc /usr/bin/tar /bin/ps /bin/kill >/dev/null && sleep 60 & /bin/kill -TERM $! && wait $!"); got.code != 128+15 {
		t.Errorf("%+v", got)
	}
	for typed, want := range map[string]string{
		"sw_vers":                  "ProductName:\t\tmacOS\nProductVersion:\t\t26.0\nBuildVersion:\t\t25A354\n",
		"sw_vers -productName":     "macOS\n",
		"sw_vers -productVersion":  "26.0\n",
		"sw_vers --productVersion": "26.0\n",
		"sw_vers -buildVersion":    "25A354\n",
	} {
		if got := m.sh("vm", typed); got.code != 0 || got.out != want {
			t.Errorf("%s: %+v", typed, got)
		}
	}
	for _, typed := range []string{"sw_vers -kernelVersion", "sw_vers -productName -buildVersion"} {
		if got := m.sh("vm", typed); got.code != 64 {
			t.Errorf("%s, which is not modelled: %+v", typed, got)
		}
	}
	if got := m.sh("vm", "nc -z 127.0.0.1 80"); got.code != 64 {
		t.Errorf("a use that is not modelled: %+v", got)
	}
}
