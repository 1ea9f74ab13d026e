package stage0

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/accept"
	"github.com/macfleet/macfleet/internal/converge/doctor"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/test/parttest"
)

var record = flag.Bool("record", false, "write down anew what simulated Macs print, and the example of a report")

const (
	simulatedFile = "../../internal/accept/simulated.json"
	// goldenReport is the report of a simulated Mac as it is delivered.
	goldenReport = "testdata/accept.txt"
)

// guestImage is any: the simulated registry has them all.
const guestImage = "registry.test/macos/base:v1"

// lookedAt is asked of real Macs alone: the simulator does not have it, and says so.
var lookedAt = []string{"pwpolicy -getaccountpolicies", "systemsetup -getremotelogin", "ls -l /private/var/db/com.apple.backgroundtaskmanagement"}

// accepted takes the bench's Mac through all sections but those to skip.
func (b *bench) accepted(s accept.Simulated, skip ...string) accept.Report {
	b.t.Helper()
	r, err := accept.Run(b.t.Context(), b.acceptance(s, skip...))
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, secret := range []string{password, b.authorizedKey(), b.Facts().Serial, b.Facts().PlatformUUID, b.Address().Addr().String()} {
		if strings.Contains(string(text)+r.Text(), secret) {
			b.t.Errorf("the report holds %q", secret)
		}
	}
	b.showsNoSecret(password)
	return r
}

func (b *bench) acceptance(s accept.Simulated, skip ...string) accept.Options {
	b.t.Helper()
	_ = b.session() // which pins the host key
	b.mayLack = lookedAt
	damaged, err := damagedBuild()
	if err == nil {
		err = b.AddTwin(damaged.SHA256, programs.twin)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	o := accept.Options{
		Target: remote.Target{
			Address: b.Address().Addr().String(), Port: int(b.Address().Port()), User: "m1", Key: b.key, Pin: b.pin,
		},
		Agent: programs.builds[0], Next: programs.builds[1], Damaged: damaged, GuestImage: guestImage, GuestConnect: "reach", Skip: skip, Version: "v0.0.0", Simulated: s,
		Password: func(context.Context, bool) (remote.Secret, error) { return secret(password), nil },
		Now:      time.Now, Say: func(line string) { b.t.Log(line) },
		Pause: func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d / timeScale):
				return nil
			}
		},
	}
	if len(skip) == 0 {
		b.withSuite(&o)
	}
	return o
}

// withSuite has the driver of tart tried, which takes a minute.
func (b *bench) withSuite(o *accept.Options) {
	b.t.Helper()
	if err := b.AddTwin(programs.suite.SHA256, programs.suiteTwin); err != nil {
		b.t.Fatal(err)
	}
	o.Suite = programs.suite
}

// damagedBuild is made once for all tests.
var damagedBuild = sync.OnceValues(func() (*remote.Build, error) {
	program, err := os.ReadFile(programs.files[0])
	if err != nil {
		return nil, err
	}
	if program, err = accept.Damage(program); err != nil {
		return nil, err
	}
	return remote.NewBuild(program)
})

// recorded is what can be written down of a report: the rows that the simulator has an
// answer to.
func recorded(r accept.Report) map[string][]string {
	all := map[string][]string{}
	for _, row := range r.Rows {
		if row.Verdict != accept.NotTried && !beyond(row) {
			all[row.Key()] = row.Seen
		}
	}
	return all
}

// beyond says that the simulator has no answer to a row: it has no such command, the
// doctor cannot see there what it does, or guests would have to have a network.
func beyond(row accept.Row) bool {
	return strings.HasPrefix(row.ID, "reach-") || slices.ContainsFunc(row.Seen, func(line string) bool {
		return line == string(doctor.Unknown) || slices.ContainsFunc(lookedAt, func(command string) bool { return line == "$ "+command })
	})
}

func withGuestProgram(program string) func(*mac.Options) {
	return func(o *mac.Options) { o.GuestPrograms = []string{program} }
}

func simulated(t *testing.T) accept.Simulated {
	t.Helper()
	s, err := accept.ReadSimulated()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keys are those of the rows with that verdict.
func keys(r accept.Report, v accept.Verdict) []string {
	var all []string
	for _, row := range r.Rows {
		if row.Verdict == v {
			all = append(all, row.Key())
		}
	}
	return all
}

// Each switch in both positions: as it is delivered, all is as recorded; in the other one,
// the report says which it is.
func TestAcceptKnowsTheSwitchesOfTheSimulator(t *testing.T) {
	parttest.Skip(t)
	known, now := simulated(t), make(map[string]accept.Report)
	var mu sync.Mutex
	t.Run("on simulated Macs", func(t *testing.T) {
		for name, u := range uncertains() {
			t.Run(name, func(t *testing.T) {
				r := u.accepted(t, known)
				mu.Lock()
				defer mu.Unlock()
				now[name] = r
			})
		}
	})
	if *record {
		writeRecords(t, now)
		return
	}
	for name, u := range uncertains() {
		r := now[name]
		if d := keys(r, accept.Differs); len(d) != 0 {
			t.Errorf("%s: %q differ:\n%s", name, d, r.Text())
		}
		var told []string
		for _, row := range r.Rows {
			if slices.Contains(row.Switches(), name) {
				told = append(told, row.Key())
			}
		}
		if diff := cmp.Diff(u.tells, told); diff != "" {
			t.Errorf("%s is told by other rows: %s", name, diff)
		}
		if u.tells != nil && !slices.ContainsFunc(r.Rows, func(row accept.Row) bool { return slices.Equal(row.Switches(), []string{name}) }) {
			t.Errorf("%s: no row tells it from other switches", name)
		}
	}
	whole := now[accept.AsDelivered]
	// Nobody crashes a guest of a Mac.
	if diff := cmp.Diff([]string{"guests/driver-GuestCrashes"}, keys(whole, accept.NotTried)); diff != "" {
		t.Errorf("not tried: %s", diff)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(known[accept.AsDelivered])), slices.Sorted(maps.Keys(recorded(whole)))); diff != "" {
		t.Errorf("other rows than recorded, -record writes them anew: %s", diff)
	}
	for _, row := range whole.Rows {
		if row.Verdict == accept.NotSimulated && !beyond(row) {
			t.Errorf("%s is not recorded", row.Key())
		}
	}
	compareWithGolden(t, whole)
}

// accepted is the report of a fresh Mac in that position. A whole run looks with the doctor
// once: where a job answered too late, as one may on a busy machine, another Mac is tried.
func (u uncertain) accepted(t *testing.T, known accept.Simulated) (r accept.Report) {
	t.Helper()
	for range 3 {
		b := newBench(t, withGuestProgram(programs.reach))
		if err := u.set(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		r = b.accepted(known, u.skip...)
		if !slices.ContainsFunc(r.Rows, func(row accept.Row) bool { return answersLate(row.Detail) }) {
			break
		}
	}
	return r
}

// writeRecords writes down what was printed, of each other position what is not as
// delivered, and the whole report as an example.
func writeRecords(t *testing.T, reports map[string]accept.Report) {
	t.Helper()
	s := accept.Simulated{}
	for name, u := range uncertains() {
		s[name] = recorded(reports[name])
		if name != accept.AsDelivered {
			maps.DeleteFunc(s[name], func(key string, _ []string) bool { return !slices.Contains(u.tells, key) })
		}
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	whole := judged(reports[accept.AsDelivered], s)
	err = errors.Join(
		os.WriteFile(simulatedFile, append(text, '\n'), 0o644), os.MkdirAll(filepath.Dir(goldenReport), 0o755),
		os.WriteFile(goldenReport, []byte(timeless(whole).Text()), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// judged is a report as it is once its rows are recorded.
func judged(r accept.Report, s accept.Simulated) accept.Report {
	r.Rows = slices.Clone(r.Rows)
	for i := range r.Rows {
		if r.Rows[i].Verdict != accept.NotTried {
			r.Rows[i] = s.Judge(r.Rows[i])
		}
	}
	return r
}

// timeless is a report without what differs from run to run.
func timeless(r accept.Report) accept.Report {
	r.Started, r.Finished = time.Unix(0, 0), time.Unix(0, 0)
	r.Rows = slices.Clone(r.Rows)
	for i := range r.Rows {
		r.Rows[i].Seconds = 0
		if strings.HasSuffix(r.Rows[i].ID, "boots") {
			r.Rows[i].Detail = "" // it names the day
		}
	}
	return r
}

var (
	numbers = regexp.MustCompile(`[0-9]+`)
	// atLast is how the last look found an agent that fails: between two starts, or before it answers.
	atLast = regexp.MustCompile(`for the agent to come up: .*`)
)

// compareWithGolden holds the report's text to the golden one, but for numbers and what chance decides.
func compareWithGolden(t *testing.T, r accept.Report) {
	t.Helper()
	want, err := os.ReadFile(goldenReport)
	if err != nil {
		t.Fatal(err)
	}
	form := func(text string) string {
		return atLast.ReplaceAllString(numbers.ReplaceAllString(text, "N"), "for the agent to come up")
	}
	if diff := cmp.Diff(form(string(want)), form(timeless(r).Text())); diff != "" {
		t.Errorf("%s (-want +got), -record writes it anew:\n%s", goldenReport, diff)
	}
}

// guestAgent has the guests' agent be of another generation.
func guestAgent(generation string) func(context.Context, *bench) error {
	return func(_ context.Context, on *bench) error {
		plan := filepath.Join(on.Root(), "private/var/db/tart-fake/plan.json")
		return errors.Join(os.MkdirAll(filepath.Dir(plan), 0o755), os.WriteFile(plan, []byte(`{"agent":"`+generation+`"}`), 0o644))
	}
}

// A Mac that is otherwise is reported as otherwise, and what could not be tried as that.
func TestAcceptReportsWhatDiffers(t *testing.T) {
	parttest.Skip(t)
	var noSession, staysUp mac.Switches
	noSession.Quirks.NoSession, staysUp.Quirks.IgnoresShutdown = true, true
	for name, c := range map[string]struct {
		set      func(context.Context, *bench) error
		password string
		with     string // a section that is not skipped
		differs  []string
		notTried []string
		left     string
	}{
		"no session comes up": {
			quirks(noSession), password, "",
			[]string{"converge/session", "converge/end"},
			[]string{"reboot/reboot"},
			"disk marker",
		},
		"guests reach what they should not": {
			beliefs(mac.Beliefs{}), password, "guests", []string{
				"guests/reach-other-guest-1", "guests/reach-mac-inside-1", "guests/reach-mac-outside-2", "guests/reach-metadata-2",
			}, nil, "disk marker",
		},
		"guests of an agent that sends both outputs": {
			guestAgent("signals"), password, "guests", []string{"guests/driver-Guest", "guests/driver-Guest/Streams", "guests/driver"}, nil, "disk marker",
		},
		"it does not reboot": {quirks(staysUp), password, "", []string{"reboot/end"}, []string{"leave/leave"}, "disk marker"},
		"a wrong password":   {beliefs(mac.Beliefs{}), "wrong", "", []string{"root/grant", "root/end"}, []string{"converge/converge", "uninstall/uninstall"}, "nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, withGuestProgram(programs.reachAll))
			if err := c.set(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			o := b.acceptance(simulated(t), slices.DeleteFunc(noLooks(), func(name string) bool { return name == c.with })...)
			o.Password = func(context.Context, bool) (remote.Secret, error) { return secret(c.password), nil }
			switch name {
			case "it does not reboot":
				o.Pause = func(context.Context, time.Duration) error { return context.DeadlineExceeded }
			case "guests of an agent that sends both outputs":
				b.withSuite(&o)
			}
			r, err := accept.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			differ, notTried := keys(r, accept.Differs), keys(r, accept.NotTried)
			for _, want := range c.differs {
				if !slices.Contains(differ, want) {
					t.Errorf("%s does not differ", want)
				}
			}
			for _, want := range c.notTried {
				if !slices.Contains(notTried, want) {
					t.Errorf("%s was tried", want)
				}
			}
			if !strings.Contains(r.Left, c.left) || t.Failed() {
				t.Errorf("left %q; %s", r.Left, r.Text())
			}
			b.isClosed()
			if r.Left != "nothing" {
				if _, err := accept.Run(t.Context(), o); !errors.Is(err, accept.ErrTaken) {
					t.Errorf("once more: %v", err)
				}
				b.isClosed()
			}
		})
	}
}

// The report that asks for the proof reboot may be lost with the connection. The boot that
// answers then tells that the Mac has rebooted, and the run goes on.
func TestAcceptKnowsARebootWhoseReportWasLost(t *testing.T) {
	parttest.Skip(t)
	b := newBench(t)
	o := b.acceptance(simulated(t), noLooks()...)
	line := newLine(t, b.Address().String())
	o.Target.Address, o.Target.Port = "127.0.0.1", line.port()
	const ofThisBoot = "private/var/run/of-this-boot"
	if err := os.WriteFile(filepath.Join(b.Root(), ofThisBoot), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		awaitMoment(t, "the jobs", func() bool { return appears(document.AgentPlist)(b) })
		line.mute()
		// A manager on a slow machine may give the silent connection up before: it is to converge anew.
		awaitMoment(t, "another boot", func() bool { return line.idle() || !appears(ofThisBoot)(b) })
		line.cut()
	})
	r, err := accept.Run(t.Context(), o)
	watch.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"converge/end", "reboot/back", "reboot/end", "leave/end", "uninstall/end"} {
		if !slices.Contains(keys(r, accept.AsSimulated), want) {
			t.Errorf("%s is not as recorded", want)
		}
	}
	if t.Failed() {
		t.Log(r.Text())
	}
	b.isClosed()
}

// isClosed: the user becomes root with the password alone, and nobody is logged in at boot.
func (b *bench) isClosed() {
	b.t.Helper()
	f := b.probe(b.session())
	if _, stays := b.read("/etc/kcpassword"); f.Sudo || f.SudoAgent || stays {
		b.t.Errorf("root without a password: %t, %t; the console's password stays: %t", f.Sudo, f.SudoAgent, stays)
	}
}

// A Mac that had a trial, or that a fleet has, is refused before anything is changed.
func TestAcceptRefusesAMacThatIsTaken(t *testing.T) {
	parttest.Skip(t)
	b, _, _ := prepared(t)
	before := len(b.Transcript())
	r, err := accept.Run(t.Context(), b.acceptance(simulated(t)))
	if !errors.Is(err, accept.ErrTaken) || len(r.Rows) != 0 {
		t.Errorf("%v, %d rows", err, len(r.Rows))
	}
	for _, e := range b.Transcript()[before:] {
		if strings.Contains(strings.Join(e.Argv, " "), document.VerbConverge+" "+"--signed") {
			t.Errorf("it ran %q", e.Argv)
		}
	}
}
