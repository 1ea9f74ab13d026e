package stage0

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/test/parttest"
)

// pointsFlag widens the sweep.
var pointsFlag = flag.String("points", "", `"all" cuts a bootstrap and a roll at every few commands, too: hours`)

// atOnce is how many Macs a sweep has at a time: some of the time they wait. More only
// make each slower.
const atOnce = 4

// point is where a bootstrap or a roll is disturbed, and how.
type point struct {
	name string
	// roll: it is not the bootstrap that is disturbed, but the roll after it.
	roll bool
	// when tells that the moment has come; nil: it is there at the beginning.
	when func(*bench) bool
	do   func(*testing.T, *manager)
}

// appears is the moment when a file of that name is on the Mac.
func appears(name string) func(*bench) bool {
	return func(b *bench) bool {
		_, err := os.Lstat(filepath.Join(b.Root(), name))
		return err == nil
	}
}

// moved is the moment when the link of that name leads to the second build.
func moved(name string) func(*bench) bool {
	return func(b *bench) bool {
		to, err := os.Readlink(filepath.Join(b.Root(), name))
		return err == nil && strings.Contains(to, programs.builds[1].SHA256)
	}
}

// arrived is the moment when so much of a build is on the Mac.
func arrived(size int64) func(*bench) bool {
	return func(b *bench) bool {
		parts, _ := filepath.Glob(filepath.Join(b.Root(), "Users/m1", document.StagingDir, "*.part"))
		for _, p := range parts {
			if info, err := os.Stat(p); err == nil && info.Size() >= size {
				return true
			}
		}
		return staged(0)(b) // it may have its name since
	}
}

func staged(build int) func(*bench) bool {
	return func(b *bench) bool {
		return appears("Users/m1/" + document.StagingDir + "/" + programs.builds[build].SHA256)(b)
	}
}

func slotOf(build int) func(*bench) bool {
	return func(b *bench) bool {
		return appears(document.InstallDir + "/" + programs.builds[build].SHA256 + "/tart-kubelet")(b)
	}
}

// The disturbances.

func cutConnection(_ *testing.T, m *manager)  { m.line.cut() }
func killController(_ *testing.T, m *manager) { m.die() }

// loseEnd has the run that is under way go on to its end, and its report be lost. A
// manager on a machine so slow that the run outlasts its patience with a silent Mac
// gives the connection up before; what it dials then is not to be silent, too.
func loseEnd(t *testing.T, m *manager) {
	m.line.mute()
	awaitMoment(t, "a report", func() bool {
		if m.line.idle() {
			return true
		}
		now := m.b.report()
		return now != nil && (m.reported == nil || !os.SameFile(m.reported, now))
	})
	m.line.cut()
}

// killConverge is kill -9 of converge or upgrade, whichever runs; one that has just
// ended was not disturbed.
func killConverge(t *testing.T, m *manager) {
	_, _ = m.b.AsRoot(t.Context(), `pkill -9 -f "(converge --signed|upgrade)$"`)
}

func killAgent(t *testing.T, m *manager) {
	_, _ = m.b.AsRoot(t.Context(), `pkill -9 -f "tart-kubelet (run|hostd)"`)
}

func cutPower(t *testing.T, m *manager) {
	if err := m.b.Reboot(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// afterBytes cuts the next connection once the manager has sent so much.
func afterBytes(n int64) func(*testing.T, *manager) {
	return func(t *testing.T, m *manager) {
		if err := m.b.SetSwitches(t.Context(), mac.Switches{Door: mac.Door{CutAfter: n, Connections: 1}}); err != nil {
			t.Error(err)
		}
	}
}

func points() []point {
	const (
		drop     = "/etc/sudoers.d/m1-nopasswd"
		password = "/etc/kcpassword"
		session  = document.StateDir + "/session.json"
		next     = document.InstallDir + "/next"
		current  = document.InstallDir + "/current"
	)
	return []point{
		// First, for it takes long: a kick that was recorded and not told is waited for.
		{"controller, at the stored password", false, appears(password), killController},
		{"connection, when root is granted", false, appears(drop), cutConnection},
		{"connection, in the upload", false, nil, afterBytes(2_000_000)},
		{"connection, when the build is staged", false, staged(0), cutConnection},
		{"connection, at the guests' volume", false, appears(document.GuestVolume), cutConnection},
		{"connection, before the first report", false, appears(document.AgentPlist), loseEnd},
		{"agent, at the journal", false, appears(document.DiskMarkerFile), killConverge},
		{"agent, before loginwindow is kicked", false, appears(session), killConverge},
		{"agent, before the reboot is asked for", false, appears(document.StateDir + "/proof.json"), killConverge},
		{"power, at the stored password", false, appears(password), cutPower},
		{"power, at the jobs", false, appears(document.HostdPlist), cutPower},
		{"power, at the credentials", false, appears(document.BootstrapKubeconfig), cutPower},
		{"connection, when the build is verified", true, appears(next), loseEnd},
		{"controller, at the slot", true, slotOf(1), killController},
		{"agent, when the new build is current", true, moved(current), killConverge},
		{"agent itself, when the new build is current", true, moved(current), killAgent},
		{"power, when the new build is current", true, moved(current), cutPower},
		{"connection, in the probe", false, nil, afterBytes(3500)},
		{"connection, at the journal", false, appears(document.DiskMarkerFile), cutConnection},
		{"controller, at the slot", false, slotOf(0), killController},
		{"agent, at the jobs", false, appears(document.AgentPlist), killConverge},
		{"power, in the upload", false, arrived(2_000_000), cutPower},
		{"connection, in the upload", true, nil, afterBytes(4_000_000)},
		{"agent, at the slot", true, slotOf(1), killConverge},
	}
}

// everyFew are points after so many commands of a run, in all ways.
func everyFew(roll bool, commands, every int) []point {
	var all []point
	for n := every; n < commands; n += every {
		when := func(b *bench) bool { return len(b.Transcript())-b.began >= n }
		for name, do := range map[string]func(*testing.T, *manager){
			"connection": cutConnection, "controller": killController, "agent": killConverge, "power": cutPower,
		} {
			all = append(all, point{fmt.Sprintf("%s, after %d commands", name, n), roll, when, do})
		}
	}
	return all
}

// sweep is what all Macs of a sweep have in common.
type sweep struct {
	want [2]document.Desired // the bootstrap's, and the roll's
}

func newSweep(t *testing.T) sweep {
	first := desired(t, programs.builds[0])
	first.Mac.AutoLogin, first.Mac.ProofReboot, first.Mac.GuestQuotaBytes = true, true, 100e9
	first.Secrets = &document.Secrets{ConsolePassword: password}
	second := first
	second.Agent = document.Agent{SHA256: programs.builds[1].SHA256, Version: "v0.0.1"}
	second.Join = nil
	return sweep{[2]document.Desired{first, second}}
}

// outcome is what a run leaves.
type outcome struct {
	end      map[string]string
	counters counters
	// commands is how many the disturbed part took.
	commands int
}

// run bootstraps a Mac, and rolls it to the second build where that is asked for.
// The last of these is disturbed at the point, if there is one.
func (s sweep) run(t *testing.T, roll bool, p *point) outcome {
	b := newBenchNow(t)
	for i := range s.want {
		s.want[i].SSHKeys = []string{b.authorizedKey()}
	}
	m := &manager{b: b, line: newLine(t, b.Address().String())}
	m.build, m.want = programs.builds[0], s.want[0]
	if roll {
		s.drive(t, m, nil)
		m.build, m.want = programs.builds[1], s.want[1]
	}
	b.began = len(b.Transcript())
	s.drive(t, m, p)
	return outcome{b.end(), b.counters(), len(b.Transcript()) - b.began}
}

func (s sweep) drive(t *testing.T, m *manager, p *point) {
	t.Helper()
	if p != nil {
		defer p.disturb(t, m)()
	}
	if err := m.untilConverged(t.Context()); err != nil {
		t.Fatalf("%v; before that: %s", err, strings.Join(m.troubles, "\n"))
	}
	t.Logf("attempts that failed: %q", m.troubles)
}

// disturb waits for the moment beside the run, and returns how to wait for its end.
func (p point) disturb(t *testing.T, m *manager) func() {
	if p.when == nil {
		p.do(t, m)
		return func() {}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		for m.reported = m.b.report(); !p.when(m.b); m.reported = m.b.report() {
			select {
			case <-ctx.Done():
				t.Error("the moment never came")
				return
			case <-ticker.C:
			}
		}
		p.do(t, m)
	})
	return func() { cancel(); watch.Wait() }
}

// report is the file of the last report; nil: there is none.
func (b *bench) report() os.FileInfo {
	info, err := os.Stat(filepath.Join(b.Root(), document.ReportFile))
	if err != nil {
		return nil
	}
	return info
}

func awaitMoment(t *testing.T, what string, come func() bool) {
	deadline := time.Now().Add(enough)
	for !come() {
		if time.Now().After(deadline) {
			t.Errorf("%s never came", what)
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestCutsOverSSHEndAsIfThereWereNone disturbs bootstraps and rolls: the connection
// is cut, the manager dies, the agent is killed, the Mac loses power. The next
// attempt begins from the dial with what the records hold, and the Mac ends as one
// that nothing befell; what may happen once happened once.
func TestCutsOverSSHEndAsIfThereWereNone(t *testing.T) {
	t.Parallel()
	s := newSweep(t)
	all := parttest.Of(t, points())
	want := map[bool]outcome{false: s.run(t, false, nil), true: s.run(t, true, nil)}
	if *pointsFlag == "all" {
		for roll, w := range want {
			all = append(all, everyFew(roll, w.commands, 4)...)
		}
	}
	var running sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for _, p := range all {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			name := "bootstrap/"
			if p.roll {
				name = "roll/"
			}
			t.Run(name+p.name, func(t *testing.T) {
				want[p.roll].same(t, s.run(t, p.roll, &p))
			})
		})
	}
	running.Wait()
}

// same expects the undisturbed end, and nothing more often than undisturbed.
func (o outcome) same(t *testing.T, got outcome) {
	t.Helper()
	if diff := cmp.Diff(o.end, got.end); diff != "" {
		t.Errorf("the Mac ends in another state:\n%s", diff)
	}
	once, count := o.counters, got.counters
	if count.Verifications > once.Verifications || count.Kicks > once.Kicks ||
		count.Volumes > once.Volumes || count.Registrations > once.Registrations {
		t.Errorf("%+v, undisturbed %+v", count, once)
	}
}
