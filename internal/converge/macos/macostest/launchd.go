package macostest

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"howett.net/plist"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// throttle is how long launchd waits between two starts of a job.
const throttle = 10 * time.Second

// daemons is the folder of the jobs that a boot loads.
const daemons = "/Library/LaunchDaemons"

type job struct {
	label   string
	program string
	// definition is the text that launchd read, whatever the file says now.
	definition string
	// listens: launchd listens for the job, and starts it for each connection.
	listens  bool
	process  Process
	pid      int
	runs     int
	started  time.Time
	lastExit string
	gone     time.Time // when a label that was booted out is forgotten
}

// advance lives through everything that happens until then.
func (m *Mac) advance(then time.Time) {
	for _, j := range m.sorted() {
		m.live(j, then)
	}
	m.now = then
}

// sorted lists the jobs by label, so that two runs give out the same numbers.
func (m *Mac) sorted() []*job {
	all := make([]*job, 0, len(m.jobs))
	for _, j := range m.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *job) int { return strings.Compare(a.label, b.label) })
	return all
}

func (m *Mac) live(j *job, then time.Time) {
	began := m.now
	defer func() { m.now = began }()
	for {
		switch {
		case !j.gone.IsZero():
			if !then.Before(j.gone) {
				delete(m.jobs, j.label)
			}
			return
		case j.pid != 0 && j.process.DiesAfter > 0 && !then.Before(j.started.Add(j.process.DiesAfter)):
			m.now = j.started.Add(j.process.DiesAfter)
			j.pid, j.lastExit = 0, j.process.exit()
		case j.pid == 0 && j.runs > 0 && !m.NoRespawn && !m.Pended && !then.Before(j.started.Add(throttle)):
			m.now = later(m.now, j.started.Add(throttle))
			m.start(j)
		default:
			return
		}
	}
}

func (p Process) exit() string {
	if p.Exit == "" {
		return "1"
	}
	return p.Exit
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (m *Mac) start(j *job) {
	if m.Pended {
		return
	}
	m.lastPID++
	j.pid, j.started = 100+m.lastPID, m.now
	j.runs++
	j.process = Process{}
	if j.program != "" && !m.mayRun(j.program) {
		j.process = Process{DiesAfter: time.Millisecond, Exit: "OS_REASON_CODESIGNING"}
		return
	}
	if m.Program != nil {
		j.process = m.Program(m, j.label, j.pid)
	}
}

// Load makes a job run without recording a change.
func (m *Mac) Load(label string) { m.load(&job{label: label}) }

func (m *Mac) load(j *job) {
	m.jobs[j.label] = j
	if !m.IdleBootstrap && !j.listens {
		m.start(j)
	}
}

// Loaded reports whether launchd knows the label.
func (m *Mac) Loaded(label string) bool { return m.jobs[label] != nil }

// listens reports whether launchd listens for the job.
func (m *Mac) listens(label string) bool {
	j := m.jobs[label]
	return j != nil && j.gone.IsZero()
}

// Definition is what launchd read of a job when it loaded it.
func (m *Mac) Definition(label string) string {
	if j := m.jobs[label]; j != nil {
		return j.definition
	}
	return ""
}

// PID is the process of a job, or 0.
func (m *Mac) PID(label string) int {
	if j := m.jobs[label]; j != nil {
		return j.pid
	}
	return 0
}

// bootDaemons ends every job and loads those that a boot loads.
func (m *Mac) bootDaemons() {
	m.jobs = map[string]*job{}
	var plists []string
	for name := range m.files {
		if (path.Dir(name) == daemons || path.Dir(name) == "/System"+daemons) && strings.HasSuffix(name, ".plist") {
			plists = append(plists, name)
		}
	}
	slices.Sort(plists)
	for _, name := range plists {
		if j, ok := m.defined(name); ok && !m.DisabledJobs[j.label] {
			m.load(j)
		}
	}
}

// defined is the job that a file defines.
func (m *Mac) defined(name string) (*job, bool) {
	data, ok := m.Get(name)
	if !ok {
		return nil, false
	}
	var p struct {
		Label            string
		ProgramArguments []string
		Sockets          map[string]any
	}
	if _, err := plist.Unmarshal(data, &p); err != nil || p.Label == "" {
		return nil, false
	}
	j := &job{label: p.Label, definition: string(data), listens: len(p.Sockets) > 0}
	if len(p.ProgramArguments) > 0 {
		j.program = p.ProgramArguments[0]
	}
	return j, true
}

type launchd struct{ m *Mac }

func refuse(verb string, code int) error {
	return &macos.LaunchdError{Verb: verb, Code: code, Text: fmt.Sprintf("error %d", code)}
}

func (l launchd) Print(_ context.Context, label string) (macos.Job, error) {
	j := l.m.jobs[label]
	if j == nil {
		return macos.Job{}, refuse("print", macos.LaunchdNoService)
	}
	if l.m.Cryptic {
		return macos.Job{}, nil
	}
	state := "running"
	switch {
	case !j.gone.IsZero():
		state = "exiting"
	case j.pid == 0 && (j.runs > 0 && !l.m.NoRespawn || l.m.Pended):
		state = "spawn scheduled"
	case j.pid == 0:
		state = "not running"
	}
	return macos.Job{State: state, PID: j.pid, Runs: j.runs, LastExit: j.lastExit}, nil
}

func (l launchd) Disabled(_ context.Context, label string) (bool, error) {
	return l.m.DisabledJobs[label], nil
}

func (l launchd) Enable(_ context.Context, label string) error {
	if err := l.m.change("enable " + label); err != nil {
		return err
	}
	if !l.m.StuckDisabled {
		delete(l.m.DisabledJobs, label)
	}
	return nil
}

func (l launchd) Disable(_ context.Context, label string) error {
	if err := l.m.change("disable " + label); err != nil {
		return err
	}
	l.m.DisabledJobs[label] = true
	return nil
}

// disabled is the code that bootstrap has for a job that is switched off.
const disabled = 119

// protected is the code that bootout has for what System Integrity Protection keeps.
const protected = 150

func (l launchd) Bootstrap(_ context.Context, name string) error {
	if err := l.m.change("bootstrap " + strings.TrimSuffix(path.Base(name), ".plist")); err != nil {
		return err
	}
	j, ok := l.m.defined(name)
	switch {
	case !ok, l.m.jobs[j.label] != nil:
		return refuse("bootstrap", macos.LaunchdIO)
	case l.m.DisabledJobs[j.label]:
		return refuse("bootstrap", disabled)
	}
	l.m.load(j)
	if j.label == SSHLabel {
		l.m.SSHD.Silent = false
		l.m.SSHD.Reloads++
	}
	return nil
}

func (l launchd) Bootout(_ context.Context, label string) error {
	if err := l.m.change("bootout " + label); err != nil {
		return err
	}
	j := l.m.jobs[label]
	if j == nil {
		return refuse("bootout", macos.LaunchdNoProcess)
	}
	if l.m.Protected[label] {
		return refuse("bootout", protected)
	}
	settle := l.m.SettleAfterBootout
	if settle == 0 {
		settle = 5 * time.Second
	}
	j.pid, j.gone = 0, l.m.now.Add(settle)
	return nil
}

func (l launchd) Kickstart(_ context.Context, label string, kill bool) error {
	call := "kickstart "
	if kill {
		call += "-k "
	}
	if err := l.m.change(call + label); err != nil {
		return err
	}
	j := l.m.jobs[label]
	switch {
	case j == nil:
		return refuse("kickstart", macos.LaunchdNoService)
	case l.m.DeafKickstart, j.pid != 0 && !kill:
		return nil
	}
	j.pid = 0
	l.m.start(j)
	return nil
}

type sockets struct{ m *Mac }

func (s sockets) Ask(_ context.Context, path string, _ []byte) ([]byte, error) {
	for _, j := range s.m.jobs {
		if j.pid != 0 && j.process.Socket == path && !s.m.now.Before(j.started.Add(j.process.AnswersAfter)) {
			return j.process.Answer, nil
		}
	}
	return nil, fmt.Errorf("asking %s: %w", path, syscall.ECONNREFUSED)
}
