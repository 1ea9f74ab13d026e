package memory

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"howett.net/plist"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

// throttle is how long launchd waits between two starts of a job.
const throttle = 10 * time.Second

type job struct {
	process  Process
	pid      int
	runs     int
	started  time.Time
	lastExit string
	gone     time.Time // when a label that was booted out is forgotten
}

// advance lives through everything that happens until then.
func (m *Mac) advance(then time.Time) {
	for label, j := range m.jobs {
		m.live(label, j, then)
	}
	m.now = then
}

func (m *Mac) live(label string, j *job, then time.Time) {
	for {
		switch {
		case !j.gone.IsZero():
			if !then.Before(j.gone) {
				delete(m.jobs, label)
			}
			return
		case j.pid != 0 && j.process.DiesAfter > 0 && !then.Before(j.started.Add(j.process.DiesAfter)):
			m.now = j.started.Add(j.process.DiesAfter)
			j.pid, j.lastExit = 0, "1"
		case j.pid == 0 && j.runs > 0 && !then.Before(j.started.Add(throttle)):
			m.now = later(m.now, j.started.Add(throttle))
			m.start(j)
		default:
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (m *Mac) start(j *job) {
	m.lastPID++
	j.pid, j.started = 100+m.lastPID, m.now
	j.runs++
	j.process = Process{}
	if m.Program != nil {
		j.process = m.Program(m, j.pid)
	}
}

// Load makes a job run without recording a change.
func (m *Mac) Load(label string) {
	j := &job{}
	m.jobs[label] = j
	m.start(j)
}

// Loaded reports whether launchd knows the label.
func (m *Mac) Loaded(label string) bool { return m.jobs[label] != nil }

// PID is the process of a job, or 0.
func (m *Mac) PID(label string) int {
	if j := m.jobs[label]; j != nil {
		return j.pid
	}
	return 0
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
	state := "running"
	switch {
	case !j.gone.IsZero():
		state = "exiting"
	case j.pid == 0 && j.runs > 0:
		state = "spawn scheduled"
	case j.pid == 0:
		state = "not running"
	}
	return macos.Job{State: state, PID: j.pid, Runs: j.runs, LastExit: j.lastExit}, nil
}

func (l launchd) Enable(context.Context, string) error { return l.m.change("enable") }

func (l launchd) Bootstrap(_ context.Context, path string) error {
	if err := l.m.change("bootstrap"); err != nil {
		return err
	}
	data, ok := l.m.Get(path)
	if !ok {
		return refuse("bootstrap", macos.LaunchdIO)
	}
	var p struct{ Label string }
	if _, err := plist.Unmarshal(data, &p); err != nil || p.Label == "" {
		return refuse("bootstrap", macos.LaunchdIO)
	}
	if l.m.jobs[p.Label] != nil {
		return refuse("bootstrap", macos.LaunchdIO)
	}
	if !l.m.IdleBootstrap {
		l.m.Load(p.Label)
		return nil
	}
	l.m.jobs[p.Label] = &job{}
	return nil
}

func (l launchd) Bootout(_ context.Context, label string) error {
	if err := l.m.change("bootout"); err != nil {
		return err
	}
	j := l.m.jobs[label]
	if j == nil {
		return refuse("bootout", macos.LaunchdNoProcess)
	}
	settle := l.m.SettleAfterBootout
	if settle == 0 {
		settle = 5 * time.Second
	}
	j.pid, j.gone = 0, l.m.now.Add(settle)
	return nil
}

func (l launchd) Kickstart(_ context.Context, label string, kill bool) error {
	call := "kickstart"
	if kill {
		call += " -k"
	}
	if err := l.m.change(call); err != nil {
		return err
	}
	j := l.m.jobs[label]
	switch {
	case j == nil:
		return refuse("kickstart", macos.LaunchdNoService)
	case l.m.DeafKickstart, j.pid != 0 && !kill:
		return nil
	}
	l.m.start(j)
	return nil
}

type sockets struct{ m *Mac }

func (s sockets) Ask(_ context.Context, path string) ([]byte, error) {
	for _, j := range s.m.jobs {
		if j.pid != 0 && j.process.Socket == path && !s.m.now.Before(j.started.Add(j.process.AnswersAfter)) {
			return j.process.Answer, nil
		}
	}
	return nil, fmt.Errorf("asking %s: %w", path, syscall.ECONNREFUSED)
}
