package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	critest "k8s.io/cri-api/pkg/apis/testing"
	"k8s.io/cri-streaming/pkg/streaming"
	utilexec "k8s.io/utils/exec"
)

// processes are a container runtime whose containers are processes of this machine, each in a group of its own.
type processes struct {
	*critest.FakeRuntimeService
	// sandboxTakes and startTakes leave a kubelet time to tell of the state before.
	sandboxTakes, startTakes time.Duration
	streams                  streaming.Server

	mu      sync.Mutex
	started map[string]*process
	journal *os.File
}

// process is a container.
type process struct {
	config *runtimeapi.ContainerConfig
	pod    string
	// log is the path of its log.
	log string
	pid int
	// ended is closed once its end is in the container's status.
	ended chan struct{}
}

func newProcesses(sandboxTakes, startTakes time.Duration) *processes {
	fake := critest.NewFakeRuntimeService()
	fake.FakeStatus = &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}}
	return &processes{FakeRuntimeService: fake, sandboxTakes: sandboxTakes, startTakes: startTakes, started: map[string]*process{}}
}

// RunPodSandbox takes as long as one that has a network to make.
func (p *processes) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	if err := wait(ctx, p.sandboxTakes); err != nil {
		return "", err
	}
	return p.FakeRuntimeService.RunPodSandbox(ctx, config, handler)
}

// CreateContainer keeps what is to be run.
func (p *processes) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	id, err := p.FakeRuntimeService.CreateContainer(ctx, sandbox, config, sandboxConfig)
	if err != nil {
		return "", err
	}
	c := &process{
		config: config, pod: sandboxConfig.GetMetadata().GetUid(), ended: make(chan struct{}),
		log: filepath.Join(sandboxConfig.GetLogDirectory(), config.GetLogPath()),
	}
	p.Lock()
	p.Containers[id].LogPath = c.log
	p.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started[id] = c
	return id, nil
}

func (p *processes) of(id string) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, found := p.started[id]; found {
		return c, nil
	}
	return nil, fmt.Errorf("no such container: %s", id)
}

// command is argv with what is the container's own.
func (c *process) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	for _, e := range c.config.Envs {
		cmd.Env = append(cmd.Env, e.Key+"="+string(e.Value))
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// StartContainer starts the container's command.
func (p *processes) StartContainer(ctx context.Context, id string) error {
	c, err := p.of(id)
	if err != nil {
		return err
	}
	if err := wait(ctx, p.startTakes); err != nil {
		return err
	}
	if err := p.FakeRuntimeService.StartContainer(ctx, id); err != nil {
		return err
	}
	log, err := newContainerLog(c.log)
	if err != nil {
		return err
	}
	cmd := c.command(context.WithoutCancel(ctx), append(append([]string(nil), c.config.Command...), c.config.Args...))
	if err := log.start(cmd); err != nil {
		log.end()
		return err
	}
	c.pid = cmd.Process.Pid
	p.tell(c, "started")
	go func() {
		_ = cmd.Wait() // its state says how it ended
		p.tell(c, "ended")
		c.killAll()
		log.end()
		p.note(id, exitCode(cmd.ProcessState.Sys().(syscall.WaitStatus)))
		close(c.ended)
	}()
	return nil
}

// killAll ends what a container has left, as all its processes end with the first.
func (c *process) killAll() { _ = syscall.Kill(-c.pid, syscall.SIGKILL) }

// end ends all containers.
func (p *processes) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.started {
		select {
		case <-c.ended:
		default:
			if c.pid != 0 {
				c.killAll()
			}
		}
	}
}

// keepJournal has the starts and ends of processes written down; an empty path: they are not.
func (p *processes) keepJournal(path string) (err error) {
	if path == "" {
		return nil
	}
	if p.journal, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	return nil
}

// tell writes down that a process has started or ended just now.
func (p *processes) tell(c *process, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.journal != nil {
		_, _ = fmt.Fprintf(p.journal, "%s %s %s\n", c.pod, what, time.Now().Format(time.RFC3339Nano))
	}
}

// note writes the end of a container into its status, as containerd does.
func (p *processes) note(id string, code int32) {
	p.Lock()
	defer p.Unlock()
	c, found := p.Containers[id]
	if !found {
		return
	}
	c.State, c.FinishedAt, c.ExitCode, c.Reason = runtimeapi.ContainerState_CONTAINER_EXITED, time.Now().UnixNano(), code, "Completed"
	if code != 0 {
		c.Reason = "Error"
	}
}

func exitCode(status syscall.WaitStatus) int32 {
	if status.Signaled() {
		return 128 + int32(status.Signal())
	}
	return int32(status.ExitStatus())
}

// StopContainer asks the container to end, and kills it after timeout seconds.
func (p *processes) StopContainer(_ context.Context, id string, timeout int64) error {
	c, err := p.of(id)
	if err != nil || c.pid == 0 {
		return nil // what was never started has ended
	}
	_ = syscall.Kill(c.pid, syscall.SIGTERM)
	select {
	case <-c.ended:
	case <-time.After(time.Duration(timeout) * time.Second):
		c.killAll()
		<-c.ended
	}
	return nil
}

// ExecSync runs a command beside the container's.
func (p *processes) ExecSync(ctx context.Context, id string, argv []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	c, err := p.of(id)
	if err != nil {
		return nil, nil, err
	}
	stdout, err = c.command(ctx, argv).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout, exit.Stderr, utilexec.CodeExitError{Err: err, Code: int(exitCode(exit.Sys().(syscall.WaitStatus)))}
	}
	return stdout, nil, err
}

// wait for as long as something takes.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
