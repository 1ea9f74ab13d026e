package hostd

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/converge/session"
)

var rootOnly = macos.Attr{Mode: 0o600, Owner: "root", Group: "wheel"}

// fixture is a Mac in memory as converge leaves it, with hostd on it.
type fixture struct {
	*hostd
	t   *testing.T
	mac *macostest.Mac
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	mac := macostest.New()
	f := &fixture{t: t, mac: mac}
	for _, dir := range []string{document.StateDir, document.ConfigDir} {
		if err := mac.Interfaces().Files.MakeDir(t.Context(), dir, rootOnly); err != nil {
			t.Fatal(err)
		}
	}
	f.configure(func(*document.AgentConfig) {})
	mac.Put(session.PasswordFile, macostest.ScrambledPassword("correct horse"), rootOnly)
	f.hostd = newHostd(options{Mac: mac.Interfaces(), Build: "b1", Patience: time.Minute}, slog.New(slog.DiscardHandler))
	f.boot = mac.Boot
	if err := f.readConfig(); err != nil {
		t.Fatal(err)
	}
	return f
}

// configure writes the configuration as converge does.
func (f *fixture) configure(edit func(*document.AgentConfig)) string {
	f.t.Helper()
	c := document.AgentConfig{
		Schema: document.ConfigSchema, Host: document.Host{Name: "ci-1", User: "m1"},
		Mac: document.Mac{AutoLogin: true, Network: document.Network{Subnet: document.DefaultSubnet}},
	}
	edit(&c)
	data, err := json.Marshal(c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.mac.Put(document.ConfigFile, data, rootOnly)
	return document.Hash(data)
}

// minutes lets time pass, a look each.
func (f *fixture) minutes(n int) {
	f.t.Helper()
	for range n {
		f.checkAll(f.t.Context())
		if err := f.o.Mac.Clock.Sleep(f.t.Context(), interval); err != nil {
			f.t.Fatal(err)
		}
	}
}

// logIn makes automatic login work, and logs in.
func (f *fixture) logIn() {
	f.t.Helper()
	f.mac.SetDefault("/Library/Preferences/com.apple.loginwindow", "autoLoginUser", "m1")
	f.mac.Put("/etc/kcpassword", macostest.ScrambledPassword("correct horse"), rootOnly)
	if _, err := session.RestartLoginwindow(f.t.Context(), f.mac.Interfaces(), "m1"); err != nil {
		f.t.Fatal(err)
	}
	if err := f.o.Mac.Clock.Sleep(f.t.Context(), 5*time.Second); err != nil {
		f.t.Fatal(err)
	}
}

func TestRestartDue(t *testing.T) {
	gone := sessionState{
		Wanted: true, User: "m1", Console: "root", Absent: time.Hour,
		Stored: session.JudgePassword(macostest.ScrambledPassword("correct horse")),
	}
	for name, c := range map[string]struct {
		edit    func(*sessionState)
		due     bool
		trouble string
	}{
		"gone":               {func(*sessionState) {}, true, ""},
		"there":              {func(s *sessionState) { s.Up = true }, false, ""},
		"not wanted":         {func(s *sessionState) { s.Wanted = false }, false, ""},
		"guests":             {func(s *sessionState) { s.Guests = 1 }, false, "1 guests run"},
		"sealed":             {func(s *sessionState) { s.Stored = session.JudgePassword([]byte(sealed)) }, false, "password for automatic login is sealed"},
		"no password":        {func(s *sessionState) { s.Stored = session.JudgePassword(nil) }, false, "password for automatic login is missing"},
		"restarted once":     {func(s *sessionState) { s.Restarts = 1 }, true, ""},
		"restarted in vain":  {func(s *sessionState) { s.Restarts = maxRestarts }, false, "after 2 restarts of loginwindow"},
		"just gone":          {func(s *sessionState) { s.Absent = absentFor - 1 }, false, ""},
		"long enough":        {func(s *sessionState) { s.Absent = absentFor }, true, ""},
		"somebody else":      {func(s *sessionState) { s.Console = "boss" }, false, "boss"},
		"a service account":  {func(s *sessionState) { s.Console = "_mbsetupuser" }, true, ""},
		"the user, half out": {func(s *sessionState) { s.Console = "m1" }, true, ""},
	} {
		s := gone
		c.edit(&s)
		due, trouble := s.restartDue()
		if due != c.due || !strings.Contains(trouble, c.trouble) || (c.trouble == "") != (trouble == "") {
			t.Errorf("%s: %v, %q", name, due, trouble)
		}
	}
}

func TestEachMinuteTheFirewallIsProved(t *testing.T) {
	f := newFixture(t)
	f.minutes(1)
	if len(f.mac.PF.Anchor(firewall.Anchor)) == 0 {
		t.Fatal("no rules")
	}
	first := f.answer(nil).FirewallProvedAt
	f.mac.PF.SetAnchor(firewall.Anchor)
	f.minutes(1)
	if len(f.mac.PF.Anchor(firewall.Anchor)) == 0 {
		t.Error("the rules did not come back")
	}
	if again := f.answer(nil).FirewallProvedAt; again == first || again == "" {
		t.Errorf("proved at %q and %q", first, again)
	}
	f.mac.PF.VMNet(false)
	f.minutes(1)
	a := f.answer(nil)
	if len(a.Troubles) == 0 || !strings.Contains(a.Troubles[0], "com.apple/*") {
		t.Errorf("troubles %q", a.Troubles)
	}
}

// On a full disk there is no socket, and hostd ends. The rules hold all the same.
func TestTheFirewallIsArmedBeforeTheSocket(t *testing.T) {
	f := newFixture(t)
	f.mac.Reboot()
	f.mac.Fail = func(call string) error {
		if strings.HasPrefix(call, "mkdir ") || strings.HasPrefix(call, "write ") {
			return syscall.ENOSPC
		}
		return nil
	}
	if err := run(t.Context(), f.o, slog.New(slog.DiscardHandler)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it ended with %v", err)
	}
	if state, err := f.o.Mac.Firewall.State(t.Context()); err != nil || !state.Enabled || len(f.mac.PF.Anchor(firewall.Anchor)) == 0 {
		t.Errorf("the packet filter is %+v, with %d rules (%v)", state, len(f.mac.PF.Anchor(firewall.Anchor)), err)
	}
}

func TestALostSessionComesBack(t *testing.T) {
	f := newFixture(t)
	f.logIn()
	f.minutes(1)
	if !f.answer(nil).Session {
		t.Fatal("no session")
	}
	before := f.mac.Console.Restarts
	f.minutes(10)
	f.mac.LogOut()
	f.minutes(2) // macOS may bring it back by itself
	if f.mac.Console.Restarts != before {
		t.Error("restarted at once")
	}
	f.minutes(2)
	if f.mac.Console.Restarts != before+1 || !f.answer(nil).Session {
		t.Errorf("%d restarts, session %v", f.mac.Console.Restarts-before, f.answer(nil).Session)
	}
}

// Each restart may try a wrong password, and a few of those lock the account.
func TestLoginwindowIsRestartedTwiceWhileThereIsNoSession(t *testing.T) {
	f := newFixture(t)
	f.mac.Console.NeverSeals = true
	f.mac.SetDefault("/Library/Preferences/com.apple.loginwindow", "autoLoginUser", "m1")
	f.mac.Put(session.PasswordFile, macostest.ScrambledPassword("wrong"), rootOnly)
	f.minutes(11)
	if n := f.mac.Console.Restarts; n != 1 {
		t.Errorf("%d restarts in 11 minutes", n)
	}
	f.minutes(60)
	if n := f.mac.Console.Refused; n != 2 {
		t.Errorf("a wrong password was tried %d times", n)
	}
	if got := strings.Join(f.answer(nil).Troubles, " "); !strings.Contains(got, "no session of m1 after 2 restarts") {
		t.Errorf("troubles %q", got)
	}
	// A person logs in: the next time that the session is lost is another matter.
	f.logIn()
	f.minutes(11)
	f.mac.LogOut()
	before := f.mac.Console.Restarts
	f.minutes(4)
	if f.mac.Console.Restarts != before+1 || !f.answer(nil).Session {
		t.Errorf("%d restarts, session %v", f.mac.Console.Restarts-before, f.answer(nil).Session)
	}
}

// A try that macOS refuses changes nothing, and the next one would be no better.
func TestARefusedRestartOfLoginwindowCounts(t *testing.T) {
	f := newFixture(t)
	tries := 0
	f.mac.Fail = func(call string) error {
		if call == "restart loginwindow" {
			tries++
			return &macos.LaunchdError{Verb: "kickstart", Code: 1, Text: "Operation not permitted"}
		}
		return nil
	}
	f.minutes(60)
	if tries != maxRestarts {
		t.Errorf("%d tries", tries)
	}
	if got := strings.Join(f.answer(nil).Troubles, " "); !strings.Contains(got, "reboot the Mac") {
		t.Errorf("troubles %q", got)
	}
}

const sealed = "\x41\xfa\x37\x42\xbe\xd9\xb9\xd4\xa3\xb9\x1f\x7d"

// A sealed password brings no session, and whoever is at the login window is not disturbed.
func TestWithASealedPasswordLoginwindowIsLeftAlone(t *testing.T) {
	f := newFixture(t)
	f.mac.Put(session.PasswordFile, []byte(sealed), rootOnly)
	f.minutes(20)
	if f.mac.Console.Restarts != 0 {
		t.Errorf("%d restarts", f.mac.Console.Restarts)
	}
	if got := strings.Join(f.answer(nil).Troubles, " "); !strings.Contains(got, aboutSession+": no session of m1") || !strings.Contains(got, "is sealed") {
		t.Errorf("troubles %q", got)
	}
}

// A password that brought no session once is not refused the next time, when one came in
// between that hostd has seen.
func TestASessionTakesBackThatThePasswordWasTried(t *testing.T) {
	f := newFixture(t)
	f.mac.Put(session.File, []byte(`{"tried":{"salt":"c2FsdA==","hash":"aGFzaA=="},"refused":[{"salt":"c2FsdA==","hash":"aGFzaA=="}]}`), rootOnly)
	f.logIn()
	f.minutes(1)
	note, _ := f.mac.Get(session.File)
	if text := string(note); strings.Contains(text, "tried") || !strings.Contains(text, "refused") {
		t.Errorf("it remembers %s", text)
	}
}

func TestGuestsKeepLoginwindowFromBeingRestarted(t *testing.T) {
	f := newFixture(t)
	f.mac.Console.Guests = 1
	f.minutes(20)
	if f.mac.Console.Restarts != 0 {
		t.Error("guests were ended")
	}
	if got := strings.Join(f.answer(nil).Troubles, " "); !strings.Contains(got, "guests run") {
		t.Errorf("troubles %q", got)
	}
}

func TestANewConfigurationCounts(t *testing.T) {
	f := newFixture(t)
	hash := f.configure(func(c *document.AgentConfig) { c.Mac.Network.Subnet = "10.77.0.0/16" })
	f.minutes(1)
	if f.answer(nil).Health.ConfigHash != hash {
		t.Error("the file before is still in force")
	}
	if !strings.Contains(strings.Join(f.mac.PF.Anchor(firewall.Anchor), "\n"), "10.77.0.0/16") {
		t.Error("the rules are for the network before")
	}
	// A file that says nothing leaves the one before in force, and is told.
	f.mac.Put(document.ConfigFile, []byte("{"), rootOnly)
	f.minutes(1)
	a := f.answer(nil)
	if a.Health.ConfigHash != hash || len(a.Troubles) == 0 || !strings.Contains(a.Troubles[0], aboutConfig) {
		t.Errorf("answer %+v", a)
	}
}

func TestWithoutAGuestsNetworkThereIsNoFirewall(t *testing.T) {
	f := newFixture(t)
	f.configure(func(c *document.AgentConfig) { c.Mac.Network = document.Network{} })
	f.minutes(2)
	if got := strings.Join(f.answer(nil).Troubles, " "); strings.Contains(got, aboutFirewall) {
		t.Errorf("troubles %q", got)
	}
	if err := f.do(t.Context(), document.HostdArm); err == nil {
		t.Error("a firewall was proved that there is not")
	}
}

// served starts hostd's socket; the caller is the user.
func (f *fixture) served(uid int) string {
	f.t.Helper()
	dir, err := os.MkdirTemp("", "hostd") // short: a socket lives in it
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		f.t.Fatal(err)
	}
	f.o.PeerUID = func(*net.UnixConn) (int, error) { return uid, nil }
	f.o.UserID = func(_ context.Context, user string) (int, error) {
		if user != "m1" {
			return 0, errors.New("no such user")
		}
		return 501, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.serve(ctx, l) }()
	f.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			f.t.Errorf("hostd ended for %v, and it was only stopped", err)
		}
	})
	return path
}

func ask(t *testing.T, path, request string) (document.HostdAnswer, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	data, err := macos.UnixSockets{}.Ask(ctx, path, []byte(request))
	var a document.HostdAnswer
	if err != nil || len(data) == 0 {
		return a, false
	}
	if err := json.Unmarshal(data, &a); err != nil {
		t.Fatalf("answer %q: %v", data, err)
	}
	return a, true
}

func TestVerbs(t *testing.T) {
	f := newFixture(t)
	f.mac.PF.VMNet(false)
	path := f.served(501)
	a, ok := ask(t, path, `{"verb":"status"}`+"\n")
	want := document.HostdAnswer{
		Health: document.Health{Build: "b1", ConfigHash: f.hash, PID: os.Getpid()}, BootSession: f.mac.Boot,
	}
	if d := cmp.Diff(want, a); !ok || d != "" {
		t.Errorf("status (-want +got):\n%s", d)
	}
	if a, ok = ask(t, path, `{"verb":"arm"}`+"\n"); !ok || !strings.Contains(a.Error, "com.apple/*") || a.FirewallProvedAt != "" {
		t.Errorf("arm of a Mac that cannot be fenced: %+v", a)
	}
	f.mac.Reboot()
	if a, ok = ask(t, path, `{"verb":"arm"}`+"\n"); !ok || a.Error != "" || a.FirewallProvedAt == "" {
		t.Errorf("arm: %+v", a)
	}
}

// Between two looks a session may come or go; whoever starts a guest is told.
func TestArmTellsOfTheSessionThereIs(t *testing.T) {
	f := newFixture(t)
	path := f.served(501)
	for _, up := range []bool{false, true, false} {
		f.mac.LogOut()
		if up {
			f.logIn()
		}
		if a, ok := ask(t, path, `{"verb":"arm"}`+"\n"); !ok || a.Session != up {
			t.Errorf("with a session %v: %+v", up, a)
		}
	}
}

func TestTheSetOfVerbsIsClosed(t *testing.T) {
	f := newFixture(t)
	f.o.Patience = time.Second // which two of these use up
	path := f.served(0)
	for _, request := range []string{
		"", "\n", "{}\n", `{"verb":"run"}` + "\n", `{"verb":"arm","anchor":"x"}` + "\n", `["arm"]` + "\n",
		`{"verb":"arm"}`, // no end of line: it may not be all
		strings.Repeat("x", maxRequest+1) + "\n",
	} {
		if a, ok := ask(t, path, request); ok && a.Error == "" {
			t.Errorf("%.40q was taken: %+v", request, a)
		}
	}
	if len(f.mac.PF.Anchor(firewall.Anchor)) > 0 {
		t.Error("one of them armed the firewall")
	}
}

func TestOnlyRootAndTheConsoleUserAreAnswered(t *testing.T) {
	for uid, want := range map[int]bool{0: true, 501: true, 502: false, 20: false} {
		f := newFixture(t)
		if _, ok := ask(t, f.served(uid), `{"verb":"status"}`+"\n"); ok != want {
			t.Errorf("user %d: answered %v", uid, ok)
		}
	}
}

func TestTheKernelNamesTheCaller(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	server, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	if uid, err := macos.PeerUID(server); err != nil || uid != os.Getuid() {
		t.Errorf("user %d, %v", uid, err)
	}
}

// blindSession cannot tell whether there is one.
type blindSession struct{ macos.Session }

func (blindSession) Aqua(context.Context, string) (bool, error) {
	return true, errors.New("launchctl hangs")
}

func TestASessionThatCannotBeSeenIsNoneAndTheFirewallIsProvedAllTheSame(t *testing.T) {
	f := newFixture(t)
	f.o.Mac.Session = blindSession{}
	a, ok := ask(t, f.served(501), `{"verb":"arm"}`+"\n")
	if !ok || a.Error != "" || a.FirewallProvedAt == "" || a.Session {
		t.Errorf("answer %+v", a)
	}
	if got := strings.Join(a.Troubles, " "); !strings.Contains(got, "launchctl hangs") {
		t.Errorf("troubles %q", got)
	}
}

func TestHostdEndsWhenItCannotAnswerAnyMore(t *testing.T) {
	f := newFixture(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s")})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil { // taking a caller fails from now on
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := f.serveAndWatch(ctx, l); !errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
		t.Errorf("it ended with %v, %v", err, ctx.Err())
	}
}
