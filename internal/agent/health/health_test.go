package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/converge/document"
)

func noon() time.Time { return time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC) }

func monitor(t *testing.T, clock *clocktesting.FakeClock, checks ...Check) *Monitor {
	t.Helper()
	return New(Options{Checks: checks, Clock: clock, Deadline: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
}

func TestACheckThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the deadline passes for the check that hangs only
		release := make(chan struct{})
		var calls atomic.Int32
		hangs := Check{Type: "Hangs", Essential: true, Look: func(context.Context) (Finding, error) {
			calls.Add(1)
			<-release // it does not heed its deadline
			return well("Back"), nil
		}}
		works := Check{Type: "Works", Look: func(context.Context) (Finding, error) { return well("Works"), nil }}
		m := monitor(t, clocktesting.NewFakeClock(noon()), hangs, works)
		for range 3 {
			m.look(t.Context())
			got := m.Findings()
			if got[0].Reason != ReasonCheckHangs || got[0].Status != corev1.ConditionUnknown || got[0].Blocks || got[1].Reason != "Works" {
				t.Errorf("found %+v", got)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("a check that hangs was begun %d times", n)
		}
		close(release)
		synctest.Wait()
		m.look(t.Context())
		if got := m.Findings(); got[0].Reason != "Back" {
			t.Errorf("a check that came back is not asked again: %+v", got)
		}
	})
}

func TestWhatBlocks(t *testing.T) {
	clock := clocktesting.NewFakeClock(noon())
	status := corev1.ConditionFalse
	look := func(context.Context) (Finding, error) { return Finding{Status: status, Reason: "R"}, nil }
	m := monitor(t, clock,
		Check{Type: "AtOnce", Essential: true, Look: look},
		Check{Type: "Later", Essential: true, Patient: true, Look: look},
		Check{Type: "Never", Look: look})
	m.o.Deadline = time.Minute
	blocks := func() string {
		m.look(t.Context())
		var words []string
		for _, f := range m.Findings() {
			words = append(words, fmt.Sprint(f.Blocks))
		}
		return strings.Join(words, " ")
	}
	for _, step := range []struct {
		after  time.Duration
		status corev1.ConditionStatus
		want   string
	}{
		{0, corev1.ConditionFalse, "true false false"},
		{patience - time.Second, corev1.ConditionFalse, "true false false"},
		{time.Second, corev1.ConditionFalse, "true true false"},
		{time.Second, corev1.ConditionUnknown, "false false false"},
		{time.Second, corev1.ConditionFalse, "true true false"},
		{time.Second, corev1.ConditionTrue, "false false false"},
		{time.Second, corev1.ConditionFalse, "true false false"}, // it counts anew
	} {
		clock.Step(step.after)
		status = step.status
		if got := blocks(); got != step.want {
			t.Errorf("at %s, %s: blocks %s, want %s", clock.Now().Format(time.TimeOnly), step.status, got, step.want)
		}
	}
}

// TestOneFailedLookIsNoBrokenTool: the Node of a Mac whose guests run stays Ready, and one on which
// no guest ever could start never is.
func TestOneFailedLookIsNoBrokenTool(t *testing.T) {
	var broken error
	m := monitor(t, clocktesting.NewFakeClock(noon()),
		Tool{Probe: func(context.Context) (vm.Info, error) { return vm.Info{Name: "tart"}, broken }}.Check())
	m.o.Deadline = time.Minute
	bad, well := errors.New("resource temporarily unavailable"), error(nil)
	for i, step := range []struct {
		err    error
		blocks bool
	}{{bad, true}, {well, false}, {bad, false}, {well, false}, {bad, false}, {bad, false}, {bad, true}, {bad, true}, {well, false}, {bad, false}} {
		broken = step.err
		m.look(t.Context())
		f := m.Findings()[0]
		if f.Blocks != step.blocks || (f.Status == corev1.ConditionTrue) != (step.err == nil) {
			t.Errorf("look %d: %+v, want blocks %v", i, f, step.blocks)
		}
	}
}

func TestNewsComeOnChangeOnly(t *testing.T) {
	f := well("A")
	m := monitor(t, clocktesting.NewFakeClock(noon()), Check{Type: "T", Look: func(context.Context) (Finding, error) { return f, nil }})
	m.o.Deadline = time.Minute
	spoke := func() bool {
		changed := m.Changed()
		m.look(t.Context())
		select {
		case <-changed:
			return true
		default:
			return false
		}
	}
	for i, want := range []bool{true, false} {
		if got := spoke(); got != want {
			t.Errorf("look %d: news %v, want %v", i, got, want)
		}
	}
	f.Message = "another"
	if !spoke() {
		t.Error("no news of another message")
	}
}

func TestRunLooksAgain(t *testing.T) {
	clock := clocktesting.NewFakeClock(noon())
	looked := make(chan struct{})
	m := monitor(t, clock, Check{Type: "T", Look: func(context.Context) (Finding, error) {
		looked <- struct{}{}
		return well("A"), nil
	}})
	m.o.Deadline = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Run(ctx) }()
	<-looked
	late := time.After(time.Minute)
	for !clock.HasWaiters() {
		select {
		case <-late:
			t.Fatal("it does not wait for its next look")
		default:
			runtime.Gosched()
		}
	}
	clock.Step(interval)
	<-looked
	m.LookAgain()
	<-looked
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The tool is a process that costs more than all other checks: a file that did not
// change is executed rarely, one that failed each time.
func TestTheToolIsExecutedWhenItChanged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tart")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	now, probes := noon(), 0
	var fails error
	look := Tool{Path: path, Now: func() time.Time { return now }, Probe: func(context.Context) (vm.Info, error) {
		probes++
		return vm.Info{Name: "tart", Version: "2.32.1"}, fails
	}}.Check().Look
	for _, step := range []struct {
		name   string
		do     func()
		probes int
		reason string
	}{
		{"the first time", func() {}, 1, ReasonToolWorks},
		{"nothing happened", func() {}, 1, ReasonToolWorks},
		{"another file", func() { write("two") }, 2, ReasonToolWorks},
		{"a long time", func() { now = now.Add(probeAnyway) }, 3, ReasonToolWorks},
		{"it goes", func() { fails = vm.ErrUnusable; _ = os.Remove(path) }, 4, ReasonToolUnusable},
		{"still", func() {}, 5, ReasonToolUnusable},
		{"it is back", func() { fails = nil; write("three") }, 6, ReasonToolWorks},
	} {
		step.do()
		f, err := look(t.Context())
		if err != nil || probes != step.probes || f.Reason != step.reason {
			t.Errorf("%s: %d probes, want %d; %+v, want %s; %v", step.name, probes, step.probes, f, step.reason, err)
		}
	}
}

// A Mac that is busy may take more than a check's deadline to execute anything.
func TestAToolThatIsSlowIsNotBroken(t *testing.T) {
	now := noon()
	var slow atomic.Bool
	c := Tool{Path: t.TempDir(), Now: func() time.Time { return now }, Probe: func(ctx context.Context) (vm.Info, error) {
		if slow.Load() {
			<-ctx.Done()
			return vm.Info{}, fmt.Errorf("%w: killed", vm.ErrUnusable)
		}
		return vm.Info{Name: "tart", Version: "2.32.1"}, nil
	}}.Check()
	m := monitor(t, clocktesting.NewFakeClock(noon()), c)
	hanging := m.o.Deadline
	m.o.Deadline = time.Minute
	m.look(t.Context())
	m.o.Deadline = hanging
	now = now.Add(probeAnyway)
	slow.Store(true)
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		f, err := c.Look(ctx)
		cancel()
		if err == nil {
			t.Errorf("a slow tool: %+v", f)
		}
		m.look(t.Context())
		if f := m.Findings()[0]; f.Status != corev1.ConditionUnknown || f.Blocks {
			t.Errorf("a slow tool: %+v", f)
		}
	}
	slow.Store(false)
	if f, err := c.Look(t.Context()); err != nil || f.Reason != ReasonToolWorks {
		t.Errorf("a tool that is fast again: %+v, %v", f, err)
	}
}

func TestWhatIsWrongWithTheTool(t *testing.T) {
	info := vm.Info{Name: "tart", Version: "2.32.1"}
	for name, c := range map[string]struct {
		tool   Tool
		err    error
		status corev1.ConditionStatus
		reason string
	}{
		"well":             {Tool{Version: "2.32.1"}, nil, "True", ReasonToolWorks},
		"any version":      {Tool{}, nil, "True", ReasonToolWorks},
		"another version":  {Tool{Version: "2.35.0"}, nil, "True", ReasonOtherVersion},
		"root":             {Tool{Root: true}, nil, "False", ReasonRunsAsRoot},
		"does not execute": {Tool{}, vm.ErrUnusable, "False", ReasonToolUnusable},
	} {
		if f := c.tool.judge(info, c.err); f.Status != c.status || f.Reason != c.reason {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

func TestSessionAndFirewall(t *testing.T) {
	proved := noon().Add(-time.Minute).Format(time.RFC3339)
	for name, c := range map[string]struct {
		answer            document.HostdAnswer
		err               error
		none, noSession   bool
		refusal           string
		session, firewall string
	}{
		"well":                   {answer: document.HostdAnswer{Session: true, FirewallProvedAt: proved}, session: ReasonSession, firewall: ReasonProved},
		"no session":             {answer: document.HostdAnswer{FirewallProvedAt: proved}, session: ReasonNoSession, firewall: ReasonProved},
		"none needed":            {answer: document.HostdAnswer{FirewallProvedAt: proved}, noSession: true, session: ReasonNotRequired, firewall: ReasonProved},
		"a locked keychain":      {answer: document.HostdAnswer{Session: true, FirewallProvedAt: proved}, refusal: "no", session: ReasonKeychain, firewall: ReasonProved},
		"never proved":           {answer: document.HostdAnswer{Session: true}, session: ReasonSession, firewall: ReasonNotProved},
		"proved long ago":        {answer: document.HostdAnswer{Session: true, FirewallProvedAt: noon().Add(-time.Hour).Format(time.RFC3339)}, session: ReasonSession, firewall: ReasonNotProved},
		"trouble since":          {answer: document.HostdAnswer{Session: true, FirewallProvedAt: proved, Troubles: []string{"firewall: pf is off"}}, session: ReasonSession, firewall: ReasonNotProved},
		"trouble with something": {answer: document.HostdAnswer{Session: true, FirewallProvedAt: proved, Troubles: []string{"ssh server: gone"}}, session: ReasonSession, firewall: ReasonProved},
		"hostd is away":          {err: errors.New("no such file"), session: ReasonHostdAway, firewall: ReasonHostdAway},
		"no hostd at all":        {none: true, session: ReasonNotRequired, firewall: ReasonNotRequired},
	} {
		h := Hostd{NeedSession: !c.noSession, Refusal: func() string { return c.refusal }, Now: noon}
		if !c.none {
			h.Ask = func(context.Context) (document.HostdAnswer, error) { return c.answer, c.err }
		}
		for i, want := range []string{c.session, c.firewall} {
			f, err := h.session(t.Context())
			if i == 1 {
				f, err = h.firewall(t.Context())
			}
			if err != nil || f.Reason != want {
				t.Errorf("%s: %+v, %v, want %s", name, f, err, want)
			}
		}
	}
}

func TestDiskPressureDoesNotFlap(t *testing.T) {
	free := map[string]int64{"/state": 500, "/vms": 500}
	c := NewDisks([]Volume{{"state", "/state", NodePercent}, {"images", "/vms", ImagePercent}}, func(_ context.Context, path string) (hostos.Disk, error) {
		if free[path] < 0 {
			return hostos.Disk{}, errors.New("df failed")
		}
		return hostos.Disk{TotalBytes: 1000, FreeBytes: free[path]}, nil
	})
	for _, step := range []struct {
		state, vms int64
		want       corev1.ConditionStatus
		fails      bool
		word       string
	}{
		{100, 150, "False", false, ""},
		{99, 150, "True", false, "/state"},
		{110, 150, "True", false, "/state"},
		{120, 149, "True", false, "/vms"},
		{120, 169, "True", false, "/vms"},
		{120, 170, "False", false, ""},
		{-1, 500, "", true, ""},
		{-1, 10, "True", false, "/vms"},
	} {
		free["/state"], free["/vms"] = step.state, step.vms
		f, err := c.Check().Look(t.Context())
		if (err != nil) != step.fails || (err == nil && (f.Status != step.want || !strings.Contains(f.Message, step.word))) {
			t.Errorf("%d, %d: %+v, %v", step.state, step.vms, f, err)
		}
	}
}

func TestPressures(t *testing.T) {
	for _, c := range []struct {
		p            hostos.Pressure
		memory, pids corev1.ConditionStatus
	}{
		{hostos.Pressure{}, "False", "False"},
		{hostos.Pressure{Memory: true}, "True", "False"},
		{hostos.Pressure{Processes: true}, "False", "True"},
	} {
		checks := Pressures(func() (hostos.Pressure, error) { return c.p, nil })
		for i, want := range []corev1.ConditionStatus{c.memory, c.pids} {
			if f, err := checks[i].Look(t.Context()); err != nil || f.Status != want {
				t.Errorf("%+v: %s %+v, %v", c.p, checks[i].Type, f, err)
			}
		}
	}
}

func leases(n int, ends time.Time) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\n\tname=guest\n\tip_address=192.168.64.%d\n\thw_address=1,a:b:c:d:e:%x\n\tlease=0x%x\n}\n", i+2, i, ends.Unix())
	}
	return b.String()
}

func TestLeases(t *testing.T) {
	subnet := netip.MustParsePrefix("192.168.64.0/24")
	soon := noon().Add(10 * time.Minute)
	file := filepath.Join(t.TempDir(), "leases")
	for name, c := range map[string]struct {
		text   string
		subnet netip.Prefix
		status corev1.ConditionStatus
		reason string
	}{
		"none":           {"", subnet, "True", ReasonAddressesFree},
		"many":           {leases(227, soon), subnet, "True", ReasonAddressesFree},
		"too many":       {leases(228, soon), subnet, "False", ReasonAddressesGone},
		"ended":          {leases(250, noon()), subnet, "True", ReasonAddressesFree},
		"a day":          {leases(3, noon().Add(24*time.Hour)), subnet, "True", ReasonLongLeases},
		"of another net": {leases(250, soon), netip.MustParsePrefix("10.1.0.0/24"), "True", ReasonAddressesFree},
		"one address":    {strings.Repeat(leases(1, soon), 250), subnet, "True", ReasonAddressesFree},
		"no network":     {leases(250, soon), netip.Prefix{}, "True", ReasonNotRequired},
		"garbage":        {"}}{{\nlease=0xzz\nip_address=nine\n}\n", subnet, "True", ReasonAddressesFree},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Leases(file, c.subnet, noon).Look(t.Context())
		if err != nil || f.Status != c.status || f.Reason != c.reason {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	if f, err := Leases(filepath.Join(t.TempDir(), "none"), subnet, noon).Look(t.Context()); err != nil || f.Reason != ReasonAddressesFree {
		t.Errorf("no file: %+v, %v", f, err)
	}
	if _, err := Leases(t.TempDir(), subnet, noon).Look(t.Context()); err == nil {
		t.Error("a directory was read")
	}
}
