package launchd

import (
	"fmt"
	"maps"
	"syscall"
	"time"

	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// job is one loaded service. Its fields are guarded by the mutex of its Launchd.
type job struct {
	l    *Launchd
	def  Definition
	path string

	pid       int
	startedAt time.Time
	runs      int
	ended     bool
	last      Status
	spawnErr  error
	reason    string

	stopping bool // SIGTERM sent, waiting for the end
	removing bool // booted out: goes away once ended and settled
	restart  bool // kickstart -k: start again at once
	pending  clock.Timer
	pended   bool // a fault keeps it from being spawned
	// disguise is how a process ended that a fault ended.
	disguise *Status
	// changed is closed, and replaced, each time the process ends.
	changed chan struct{}
}

// state is the word launchctl print shows.
func (j *job) state() string {
	switch {
	case j.stopping && j.pid != 0:
		return "SIGTERMed"
	case j.pid != 0:
		return "running"
	case (j.pending != nil || j.pended) && !j.removing:
		return "spawn scheduled"
	case j.spawnErr != nil:
		return "spawn failed"
	}
	return "not running"
}

func (j *job) spawnLocked(reason string) {
	j.cancelPendingLocked()
	if j.l.halted || j.removing {
		return
	}
	if _, j.pended = j.l.faultLocked(j.def.Label, wire.NeverSpawns); j.pended {
		return
	}
	env := map[string]string{"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "XPC_SERVICE_NAME": j.def.Label, "XPC_FLAGS": "0x0"}
	maps.Copy(env, j.def.Environment)
	j.startedAt = j.l.clock.Now()
	j.runs++
	j.reason = reason
	spec := Spawn{
		Label: j.def.Label, Path: j.def.Program, Argv: j.def.Arguments, Env: env, UserName: j.def.UserName,
		Dir: j.def.Dir, Stdin: j.def.Stdin, Stdout: j.def.Stdout, Stderr: j.def.Stderr,
	}
	if _, idle := j.l.faultLocked(j.def.Label, wire.NoHealth); idle {
		spec.Path, spec.Argv = idler()
	}
	var pid int
	ready := make(chan struct{})
	pid, j.spawnErr = j.l.sys.Spawn(spec, func(s Status) {
		<-ready
		j.exited(pid, s)
	})
	if j.spawnErr != nil {
		j.l.sys.Log(fmt.Sprintf("launchd: %s: %v", j.def.Label, j.spawnErr))
		j.ended, j.last = true, Status{Code: exConfig}
		if j.def.KeepAlive.restart(j.last) && j.l.respawnsLocked() {
			j.scheduleLocked()
		}
		return
	}
	j.pid, j.stopping = pid, false
	j.doomLocked(pid)
	close(ready)
}

// exConfig is EX_CONFIG, what launchd shows for a program it could not start.
const exConfig = 78

func (j *job) exited(pid int, s Status) {
	j.l.mu.Lock()
	defer j.l.mu.Unlock()
	if !j.def.AbandonGroup {
		j.l.sys.SignalGroup(pid, syscall.SIGKILL)
	}
	j.cancelPendingLocked()
	if j.disguise != nil {
		s, j.disguise = *j.disguise, nil
	}
	j.pid, j.stopping = 0, false
	j.ended, j.last = true, s
	restart := j.restart
	j.restart = false
	switch {
	case j.removing:
		j.settleLocked()
	case restart:
		j.spawnLocked("kickstart")
	case j.def.KeepAlive.restart(s) && j.l.respawnsLocked():
		j.scheduleLocked()
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

// scheduleLocked starts the job again, no sooner than its throttle interval
// after it last started.
func (j *job) scheduleLocked() {
	wait := j.l.scaled(j.def.Throttle) - j.l.clock.Since(j.startedAt)
	if wait <= 0 {
		j.spawnLocked("keepalive")
		return
	}
	j.afterLocked(wait, func() { j.spawnLocked("keepalive") })
}

func (j *job) kickLocked() (pid, rc int) {
	j.spawnLocked("kickstart")
	if j.pid == 0 {
		return 0, codeIO
	}
	return j.pid, 0
}

// terminateLocked asks the process to end and kills it when it does not.
func (j *job) terminateLocked() {
	if j.stopping {
		return
	}
	j.stopping = true
	pid := j.pid
	if _, ignores := j.l.faultLocked(j.def.Label, wire.IgnoresTerm); !ignores {
		j.l.sys.Signal(pid, syscall.SIGTERM)
	}
	j.afterLocked(j.l.scaled(j.def.ExitTimeout), func() {
		if j.pid == pid {
			j.l.sys.Signal(pid, syscall.SIGKILL)
		}
	})
}

func (j *job) settleLocked() {
	j.afterLocked(j.l.scaled(settleTime), func() { delete(j.l.jobs, j.def.Label) })
}

// afterLocked runs what with the mutex held once d has passed, unless another
// call replaced it in between.
func (j *job) afterLocked(d time.Duration, what func()) {
	j.cancelPendingLocked()
	var timer clock.Timer
	fire := func() {
		j.l.mu.Lock()
		defer j.l.mu.Unlock()
		if j.pending != timer {
			return
		}
		j.pending = nil
		what()
	}
	// A clock may call with its own lock held, and what reads the clock.
	timer = j.l.clock.AfterFunc(d, func() { go fire() })
	j.pending = timer
}

func (j *job) cancelPendingLocked() {
	if j.pending != nil {
		j.pending.Stop()
		j.pending = nil
	}
}
