package mac

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

func (b *bench) turn(s Switches) {
	b.t.Helper()
	if err := b.SetSwitches(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

// stalled is how long nothing must come from a port that stalls.
const stalled = 300 * time.Millisecond

// knock connects and reads what a Mac says first, for so long.
func (b *bench) knock(wait time.Duration) (string, error) {
	b.t.Helper()
	conn, err := net.DialTimeout("tcp", b.Address().String(), patience)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(wait)); err != nil {
		b.t.Fatal(err)
	}
	said := make([]byte, 4)
	_, err = io.ReadFull(conn, said)
	return string(said), err
}

func TestAPortThatRefusesStallsOrHangsUp(t *testing.T) {
	b := startBench(t, nil)
	var timeout net.Error
	for _, tt := range []struct {
		name string
		door Door
		wait time.Duration
		is   func(error) bool
	}{
		{"refuse", Door{Refuse: true}, patience, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
		{"stall", Door{Stall: true}, stalled, func(err error) bool { return errors.As(err, &timeout) && timeout.Timeout() }},
		{"no banner", Door{NoBanner: true}, patience, func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) }},
	} {
		b.turn(Switches{Door: tt.door})
		if said, err := b.knock(tt.wait); !tt.is(err) {
			t.Errorf("%s: %q, %v", tt.name, said, err)
		}
		b.turn(Switches{})
		if said, err := b.knock(patience); said != "SSH-" {
			t.Errorf("after %s: %q, %v", tt.name, said, err)
		}
	}
	b.turn(Switches{Door: Door{NoBanner: true, Connections: 1}})
	if _, err := b.knock(patience); err == nil {
		t.Error("the first of one bad connection was good")
	}
	b.ok("true")
}

// launchd has the port, so that a kickstart of the job leaves its queue as it is.
func TestAFullQueueIsEmptiedByAnotherSocket(t *testing.T) {
	b := startBench(t, nil)
	const job, plist = "com.openssh.sshd", "/System/Library/LaunchDaemons/ssh.plist"
	b.turn(Switches{Door: Door{QueueFull: true}})
	b.asRoot("launchctl kickstart -k system/" + job)
	if said, err := b.knock(stalled); err == nil {
		t.Errorf("a kickstart emptied the queue: %q", said)
	}
	for script, rc := range map[string]int{"bootstrap system " + plist: 37, "print system/" + job: 0} {
		b.exitsAsRoot("launchctl "+script, rc)
	}
	b.asRoot("launchctl bootout system/" + job)
	if said, err := b.knock(patience); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("booted out: %q, %v", said, err)
	}
	for script, rc := range map[string]int{
		"bootout system/" + job: 3, "print system/" + job: 113, "kickstart -k system/" + job: 113,
	} {
		b.exitsAsRoot("launchctl "+script, rc)
	}
	b.asRoot("launchctl disable system/" + job)
	b.exitsAsRoot("launchctl bootstrap system "+plist, 119)
	b.asRoot("launchctl enable system/" + job + " && launchctl bootstrap system " + plist)
	if said, err := b.knock(patience); said != "SSH-" {
		t.Errorf("loaded again: %q, %v", said, err)
	}
}

// exitsAsRoot runs a script at the machine itself, which is to end with that code.
func (b *bench) exitsAsRoot(script string, want int) {
	b.t.Helper()
	_, err := b.AsRoot(b.t.Context(), script)
	rc := 0
	if failed := (*ScriptError)(nil); errors.As(err, &failed) {
		rc = failed.RC
	} else if err != nil {
		b.t.Fatalf("%s: %v", script, err)
	}
	if rc != want {
		b.t.Errorf("%s: exit %d, want %d", script, rc, want)
	}
}

func TestAConnectionCutInTheMiddle(t *testing.T) {
	b := startBench(t, nil)
	b.turn(Switches{Door: Door{CutAfter: 40_000, Connections: 2}})
	if got, err := b.try("cat >part", strings.Repeat("x", 10_000)); err != nil || got.rc != 0 {
		t.Errorf("a short upload: %+v, %v", got, err)
	}
	if got, err := b.try("cat >>part", strings.Repeat("x", 1_000_000)); err == nil && got.rc == 0 {
		t.Errorf("a cut upload: %+v", got)
	}
	if n := len(b.ok("cat part")); n < 10_000 || n > 50_000 {
		t.Errorf("%d bytes arrived, want 10000 and no more than 40000 of the others", n)
	}
	b.turn(Switches{Door: Door{CutBeforeExit: true, Connections: 1}})
	if got, err := b.try("echo done | tee proof", ""); err != nil || got.rc != -1 || got.out != "done\n" {
		t.Errorf("cut before the exit status: %+v, %v", got, err)
	}
	if got := b.ok("cat proof"); got != "done" {
		t.Errorf("the command's work: %q", got)
	}
}

func TestF12_HostKeysAreOnePerAlgorithm(t *testing.T) {
	b := startBench(t, nil)
	met := map[string][]byte{}
	meet := func(algorithm string) ([]byte, error) {
		c, key, err := b.dial(algorithm)
		if err == nil {
			_ = c.Close()
		}
		if key == nil {
			return nil, err
		}
		return key.Marshal(), err
	}
	algorithms := []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA256}
	for _, a := range algorithms {
		key, err := meet(a)
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		met[a] = key
	}
	b.turn(Switches{Door: Door{OtherHostKeys: true}})
	first, err := meet(ssh.KeyAlgoED25519)
	b.turn(Switches{RespawnLimit: 1000, Door: Door{OtherHostKeys: true}})
	if again, _ := meet(ssh.KeyAlgoED25519); err != nil || !bytes.Equal(first, again) || bytes.Equal(first, met[ssh.KeyAlgoED25519]) {
		t.Errorf("an impostor's key changed, or was the Mac's own: %v", err)
	}
	b.turn(Switches{})
	for _, a := range algorithms {
		if key, err := meet(a); err != nil || !bytes.Equal(key, met[a]) {
			t.Errorf("%s changed: %v", a, err)
		}
	}
}

func TestAnImageWithoutKeys(t *testing.T) {
	b := startBench(t, nil)
	b.turn(Switches{Door: Door{NoKeys: true}})
	if c, _, err := b.dial(); err == nil {
		_ = c.Close()
		t.Error("a key was accepted")
	}
	b.turn(Switches{})
	b.ok("true")
}

func TestF14_InstancesAndSessionsAreCounted(t *testing.T) {
	b := startBench(t, nil)
	c, _, err := b.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for n := range 10 {
		s, err := c.NewSession()
		if err != nil {
			t.Fatalf("session %d: %v", n+1, err)
		}
		defer s.Close()
	}
	var refused *ssh.OpenChannelError
	if s, err := c.NewSession(); !errors.As(err, &refused) {
		t.Errorf("an eleventh session: %v, %v", s, err)
	}
	for range 41 {
		conn, err := net.Dial("tcp", b.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := b.knock(patience); err == nil {
		t.Errorf("a 43rd instance said %q", said)
	}
}

func TestF03_ALockedAccountClosesKeyLoginsForAWhile(t *testing.T) {
	b := startBench(t, func(o *Options) {
		o.TimeScale = 30
		o.Switches.LockSteps = []LockStep{{After: 3, For: 10 * time.Minute}}
	})
	b.ok("true")
	began := time.Now()
	if got := b.sh(`printf 'a\nb\nc\n' | sudo -S -k -p '' true`, ""); got.rc != 1 {
		t.Errorf("three wrong passwords: %+v", got)
	}
	if _, err := b.try("true", ""); err == nil && time.Since(began) < 20*time.Second { // which the lock lasts
		t.Error("a locked account let a key in")
	}
	await(t, "the lock to end", func() bool { _, err := b.try("true", ""); return err == nil })
	b.grant()
}
