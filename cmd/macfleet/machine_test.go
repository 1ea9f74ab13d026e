package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	terminals "github.com/creack/pty"
	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/remote"
)

const aMachine = "macfleet-builders-x7k2p-00001"

// reachable makes the first Machine of the fleet that of a Mac which answers, in a cluster
// that holds its fleet's key.
func reachable(t *testing.T, mac *testMac) *fleetServer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if mac.client, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: clitest.Builders + "-ssh"}, Data: map[string][]byte{"ssh-privatekey": pem.EncodeToMemory(block)}}
	return &fleetServer{
		objects: map[string]any{"/api/v1/namespaces/" + clitest.Namespace + "/secrets/" + secret.Name: secret},
		change: func(s *snapshot.Snapshot) {
			s.Hosts[0].Spec.Record.HostKey = &infrav1.HostKey{Algorithm: ssh.KeyAlgoED25519, SHA256: ssh.FingerprintSHA256(mac.hostKey.PublicKey())}
			core := clusterv1.Machine{ObjectMeta: *s.Machines[0].ObjectMeta.DeepCopy()}
			core.Spec.InfrastructureRef.Name = core.Name
			s.CoreMachines = []clusterv1.Machine{core}
			s.Machines[0].Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: "a-name"}, {Type: clusterv1.MachineExternalIP, Address: "127.0.0.1"}}
		},
	}
}

// machineVerb runs a verb of machine with what is typed.
func machineVerb(t *testing.T, mac *testMac, f *fleetServer, verb, typed string, args ...string) (code int, out, errs string) {
	t.Helper()
	speakTo(t, f)
	return typedTo(t, typed, append([]string{"machine", verb, "--port", portOf(t, mac), aMachine}, args...)...)
}

func portOf(t *testing.T, mac *testMac) string {
	t.Helper()
	_, port, err := net.SplitHostPort(mac.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// typedTo runs a verb that reads what is typed.
func typedTo(t *testing.T, typed string, args ...string) (code int, out, errs string) {
	t.Helper()
	root := newRoot()
	var stdout, stderr bytes.Buffer
	root.SetIn(strings.NewReader(typed))
	root.SetArgs(args)
	code = execute(t.Context(), root, &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// The steps of the last converge stand among all else that happened, each at its own time; where
// the Mac does not tell them, all else is told, and why.
func TestATimelineWithTheStepsOfTheMac(t *testing.T) {
	const report = `{"schema":"macfleet.dev/report/v1","verb":"converge","build":"v1","revision":"aa46","started":"2026-11-26T11:00:00Z","finished":"2026-11-26T11:00:09Z","exit":20,"steps":[` +
		`{"name":"lock","outcome":"unchanged","ms":3000},{"name":"sshd","outcome":"changed","ms":2000},{"name":"tart","outcome":"failed","class":"retry","detail":"no route","ms":1200}]}`
	for name, c := range map[string]struct {
		of     string
		report string
		code   int
		has    []string
		errs   string
	}{
		"a Machine": {aMachine, report, 0, []string{
			"2026-11-26T11:00:00Z   mac       converge began: build v1, revision aa46\n", "2026-11-26T11:00:05Z   mac       step sshd: changed\n",
			"2026-11-26T11:00:06Z   mac       step tart failed (retry): no route\n", "2026-11-26T11:00:09Z   mac       converge failed (exit code 20): found as it should be: 1 of 3 steps\n",
			"it was claimed: its disk counts as used",
		}, ""},
		"its host":           {"fr-par-1-00000001", report, 0, []string{"step sshd: changed"}, ""},
		"without a report":   {aMachine, "", exitPartly, []string{"it was claimed"}, "macfleet: not shown: the Mac's last converge: tart-kubelet: no converge has run on this Mac\n"},
		"a Mac of nobody":    {"00000008", report, exitPartly, []string{"it was first seen"}, "macfleet: not shown: the Mac's last converge: no Machine has it, whose fleet's key would open it\n"},
		"with its namespace": {clitest.Namespace + "/" + aMachine, report, 0, []string{"step sshd: changed"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			mac := newTestMac(t)
			mac.console = func(_ string, channel ssh.Channel) int {
				if c.report == "" {
					_, _ = io.WriteString(channel.Stderr(), "tart-kubelet: no converge has run on this Mac\n")
					return 1
				}
				_, _ = io.WriteString(channel, c.report)
				return 0
			}
			speakTo(t, reachable(t, mac))
			code, out, errs := typedTo(t, "", "timeline", "--mac", "--port", portOf(t, mac), c.of)
			if code != c.code || errs != c.errs {
				t.Errorf("exit code %d, %q; want %d, %q", code, errs, c.code, c.errs)
			}
			for _, has := range c.has {
				if !strings.Contains(out, has) {
					t.Errorf("does not say %q:\n%s", has, out)
				}
			}
		})
	}
}

func TestACommandOnAMachinesMac(t *testing.T) {
	mac := newTestMac(t)
	mac.console = func(command string, c ssh.Channel) int {
		typed, _ := io.ReadAll(c)
		_, _ = fmt.Fprintf(c, "%s reads %s", command, typed)
		return 7
	}
	code, out, errs := machineVerb(t, mac, reachable(t, mac), "ssh", "this", "--", "grep", "-c", "it's a word")
	if want := `'grep' '-c' 'it'\''s a word' reads this`; code != 7 || out != want || errs != "" {
		t.Errorf("exit code %d, %q, %q; want %q", code, out, errs, want)
	}
}

// A command must not run on whichever Mac's name begins so.
func TestACommandWantsAWholeName(t *testing.T) {
	mac := newTestMac(t)
	mac.console = func(command string, _ ssh.Channel) int {
		t.Errorf("ran %s", command)
		return 0
	}
	speakTo(t, reachable(t, mac))
	root := newRoot()
	root.SetArgs([]string{"machine", "ssh", aMachine[:len(aMachine)-1], "--", "true"})
	var stdout, stderr bytes.Buffer
	if code := execute(t.Context(), root, &stdout, &stderr); code == 0 || !strings.Contains(stderr.String(), "there is no machine "+aMachine[:len(aMachine)-1]) {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}

func TestTheDoctorOnAMachinesMac(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
		exit int
	}{
		{nil, "sudo -n /usr/local/libexec/macfleet/current/tart-kubelet doctor", 0},
		{[]string{"--json"}, "sudo -n /usr/local/libexec/macfleet/current/tart-kubelet doctor --json", 1},
	} {
		mac := newTestMac(t)
		mac.console = func(command string, channel ssh.Channel) int {
			if command == agentTest {
				return 0
			}
			_, _ = io.WriteString(channel, command)
			return c.exit
		}
		if code, out, errs := machineVerb(t, mac, reachable(t, mac), "doctor", "", c.args...); code != c.exit || out != c.want || errs != "" {
			t.Errorf("exit code %d, %q, %q; want %q", code, out, errs, c.want)
		}
	}
}

// agentTest is how it is found out whether a Mac has an agent.
const agentTest = "test -e /usr/local/libexec/macfleet/current/tart-kubelet"

// Where the setup failed before the agent came, that is said, and what to do.
func TestAMacWithoutAnAgent(t *testing.T) {
	for _, verb := range []string{"doctor", "logs"} {
		mac := newTestMac(t)
		mac.console = func(command string, channel ssh.Channel) int {
			if command != agentTest {
				_, _ = io.WriteString(channel.Stderr(), "sudo: tart-kubelet: command not found\n")
			}
			return 1
		}
		f := reachable(t, mac)
		as := f.change
		f.change = func(s *snapshot.Snapshot) {
			as(s)
			s.Machines[0].Status.Conditions = append(s.Machines[0].Status.Conditions, clitest.Condition(infrav1.BootstrappedCondition, metav1.ConditionFalse, infrav1.ReasonBootstrapFailed, "step upload failed (retry): no space", 0))
		}
		code, _, errs := machineVerb(t, mac, f, verb, "")
		if code != exitFailed || !strings.Contains(errs, "there is no agent on the Mac of Machine macfleet-system/"+aMachine) || !strings.Contains(errs, "(BootstrapFailed: step upload failed (retry): no space)") || !strings.Contains(errs, "macfleet explain machine "+aMachine) {
			t.Errorf("%s: exit code %d, %q", verb, code, errs)
		}
	}
}

// Nothing is sent to what is not the recorded Mac, and each thing that is missing is said.
func TestNoCommandReachesAnotherMac(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*snapshot.Snapshot)
		codes  map[string]int
		says   string
	}{
		"another host key": {change: func(s *snapshot.Snapshot) { s.Hosts[0].Spec.Record.HostKey.SHA256 = "SHA256:another" }, says: "SHA256:another"},
		"no host key":      {change: func(s *snapshot.Snapshot) { s.Hosts[0].Spec.Record.HostKey = nil }, says: "the host key of Machine macfleet-system/" + aMachine + "'s Mac is not recorded yet"},
		"no Mac":           {change: func(s *snapshot.Snapshot) { s.Hosts[0].Spec.ClaimRef = nil }, says: "there is no Mac of Machine macfleet-system/" + aMachine + ": macfleet explain machine " + aMachine},
		"no address":       {change: func(s *snapshot.Snapshot) { s.Machines[0].Status.Addresses = nil }, says: "there is no address of Machine"},
		"no right":         {codes: map[string]int{clitest.Builders + "-ssh": 403}, says: "you may not read the Secret macfleet-system/macfleet-builders-ssh"},
		"no key":           {codes: map[string]int{clitest.Builders + "-ssh": 404}, says: "with the fleet's key is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			mac := newTestMac(t)
			mac.console = func(command string, _ ssh.Channel) int {
				t.Errorf("%s is run", command)
				return 0
			}
			f := reachable(t, mac)
			f.codes = c.codes
			as := f.change
			f.change = func(s *snapshot.Snapshot) {
				as(s)
				if c.change != nil {
					c.change(s)
				}
			}
			code, _, errs := machineVerb(t, mac, f, "ssh", "", "true")
			if code != exitFailed || !strings.Contains(errs, c.says) || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d, %q; want one line with %q", code, errs, c.says)
			}
		})
	}
}

// The last converge is told in words, and the logs as they are; a Mac without a report
// shows its logs all the same.
func TestTheLogsOfAMachinesMac(t *testing.T) {
	const report, well = `{"schema":"macfleet.dev/report/v1","verb":"converge","build":"v1","revision":"aa46","finished":"2026-11-26T11:00:00Z","exit":75,"steps":[` +
		`{"name":"sshd","outcome":"unchanged","ms":3},{"name":"tart","outcome":"failed","class":"retry","detail":"no route","ms":1200}]}`, `{"schema":"macfleet.dev/report/v1","verb":"converge","build":"v1","revision":"aa46","finished":"2026-11-26T11:00:00Z","exit":10,"steps":[{"name":"sshd","outcome":"changed","ms":3}]}`
	for name, c := range map[string]struct {
		report string
		args   []string
		out    string
		errs   string
	}{
		"with a report": {report, nil, "converge of 2026-11-26T11:00:00Z, build v1, revision aa46: failed (exit code 75)\n" +
			"STEP   OUTCOME          TOOK   SAYS\ntart   failed (retry)   1.2s   no route\nfound as it should be: 1 step\n" +
			"tail -n 20 /var/log/macfleet/tart-kubelet.err.log /var/log/macfleet-hostd.err.log", ""},
		"that changed something": {well, nil, "converge of 2026-11-26T11:00:00Z, build v1, revision aa46: ended well\n" +
			"STEP   OUTCOME   TOOK   SAYS\nsshd   changed   3ms\nfound as it should be: 0 steps\n" +
			"tail -n 20 /var/log/macfleet/tart-kubelet.err.log /var/log/macfleet-hostd.err.log", ""},
		"without one": {"", []string{"--tail", "5", "--follow"}, "tail -n 5 -F /var/log/macfleet/tart-kubelet.err.log /var/log/macfleet-hostd.err.log", "macfleet: not shown: the last converge: tart-kubelet: no converge has run on this Mac\n"},
	} {
		t.Run(name, func(t *testing.T) {
			mac := newTestMac(t)
			mac.console = func(command string, channel ssh.Channel) int {
				switch {
				case command == agentTest: // it is there
				case command != "sudo -n /usr/local/libexec/macfleet/current/tart-kubelet report":
					_, _ = io.WriteString(channel, command)
				case c.report == "":
					_, _ = io.WriteString(channel.Stderr(), "tart-kubelet: no converge has run on this Mac\n")
					return 1
				default:
					_, _ = io.WriteString(channel, c.report)
				}
				return 0
			}
			if code, out, errs := machineVerb(t, mac, reachable(t, mac), "logs", "", c.args...); code != 0 || out != c.out || errs != c.errs {
				t.Errorf("exit code %d, %q, %q; want %q, %q", code, out, errs, c.out, c.errs)
			}
		})
	}
}

// The Macs of a sandbox are behind one port of the loopback.
func TestASandboxIsToldByItsAddresses(t *testing.T) {
	refused := errors.New("connection refused")
	for name, c := range map[string]struct {
		err  error
		to   remote.Target
		told bool
	}{
		"a sandbox's":       {refused, remote.Target{Address: "127.65.208.4"}, true},
		"with its port":     {refused, remote.Target{Address: "127.65.208.4", Port: 2222}, false},
		"a Mac's":           {refused, remote.Target{Address: "51.15.0.1"}, false},
		"a name":            {refused, remote.Target{Address: "mac.example"}, false},
		"one that answered": {nil, remote.Target{Address: "127.65.208.4"}, false},
	} {
		err := behindPort(c.err, c.to)
		if !errors.Is(err, c.err) || c.err != nil && strings.Contains(err.Error(), "--port its ssh port") != c.told {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Where what a shell prints goes elsewhere, its reader can end this program, as head does: a
// terminal that was taken over would stay so.
func TestATerminalIsTakenOverOnlyWhereItShowsTheShell(t *testing.T) {
	keyboard, terminal, err := terminals.Open()
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer keyboard.Close()
	defer terminal.Close()
	for name, c := range map[string]struct {
		out       io.Writer
		takesOver bool
	}{"a terminal": {terminal, true}, "a pipe": {&bytes.Buffer{}, false}} {
		cmd := &cobra.Command{}
		cmd.SetIn(terminal)
		cmd.SetOut(c.out)
		at, restore, err := consoleOf(cmd, true)
		if err != nil {
			t.Fatal(err)
		}
		restore()
		if (at.Terminal != "") != c.takesOver {
			t.Errorf("%s: the shell has the terminal %q", name, at.Terminal)
		}
	}
}

// What a person is asked to write can be written.
func TestSpans(t *testing.T) {
	for typed, want := range map[string]time.Duration{"90m": 90 * time.Minute, "2d": 48 * time.Hour, "1m": time.Minute, "0d": -1, "0": -1, "500ms": -1, "-1h": -1, "d": -1, "1.5d": -1, "99999999d": -1, "1w": -1} {
		var got time.Duration
		err := span{&got}.Set(typed)
		if (err != nil) != (want == -1) || err == nil && got != want {
			t.Errorf("%s: %s, %v", typed, got, err)
		}
	}
}

// Guests and a hostile Mac write into what these verbs show.
func TestAMacsWordsDoNothingToATerminal(t *testing.T) {
	for _, verb := range []string{"logs", "doctor"} {
		for name, c := range map[string]struct{ said, shown string }{
			"ESC":           {"\x1b[2Jout", "\ufffd[2Jout"},
			"BEL":           {"\x1b]0;out\a", "\ufffd]0;out\ufffd"},
			"CR":            {"bad\rwell", "bad\ufffdwell"},
			"C1":            {"out\u009b2J\u0090", "out\ufffd2J\ufffd"},
			"C1 as a byte":  {"out\x9b2J", "out\ufffd2J"},
			"invalid UTF-8": {"out\xff\xc3(", "out\ufffd\ufffd("},
			"other letters": {"für\t«Macs»", "für\t«Macs»"},
		} {
			t.Run(verb+" "+name, func(t *testing.T) {
				mac := newTestMac(t)
				mac.console = func(command string, channel ssh.Channel) int {
					switch {
					case command == agentTest: // it is there
					case strings.HasSuffix(command, " report"):
						return 1
					default:
						_, _ = io.WriteString(channel, c.said+"\n")
						_, _ = io.WriteString(channel.Stderr(), c.said+"\n")
					}
					return 0
				}
				_, out, errs := machineVerb(t, mac, reachable(t, mac), verb, "")
				if out != c.shown+"\n" || !strings.HasSuffix(errs, c.shown+"\n") {
					t.Errorf("%q, %q; want %q", out, errs, c.shown)
				}
			})
		}
	}
}
