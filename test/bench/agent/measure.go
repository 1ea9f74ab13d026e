package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

const (
	// patience bounds each wait.
	patience = time.Minute
	// images are on the host beside those that Pods use.
	images = 10
	// guests that an agent at rest has.
	guests = 2
)

// bench is one Mac that is measured.
type bench struct {
	plane *stage.Plane
	mac   *stage.Mac
	seen  *stage.Recorder
	out   *measured
}

func measure(ctx context.Context, plane *stage.Plane, s settings) (m *measured, err error) {
	mac, err := plane.NewMac(ctx, "bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, mac.Close()) }()
	b := &bench{plane: plane, mac: mac, seen: stage.Record(ctx, plane.Client, nil), out: &measured{}}
	defer b.seen.Stop()
	for i := range images {
		if err := b.tart(ctx, "pull", fmt.Sprintf("registry.test/macos/golden-%d:v1", i)); err != nil {
			return nil, err
		}
	}
	if err := mac.StartAgent(); err != nil {
		return nil, err
	}
	for _, part := range []func(context.Context, settings) error{b.turns, b.adoption, b.rest} {
		if err := part(ctx, s); err != nil {
			return nil, fmt.Errorf("%w; the agent said: %s", err, mac.Log.Tail(4000))
		}
	}
	return b.out, nil
}

func (b *bench) tart(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, b.mac.Path("bin", "tart"), args...)
	cmd.Env = append(b.mac.Environ(), "TART_HOME="+b.mac.Path("tart"))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("tart %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func await(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return stage.Await(ctx, what, done)
}

// start makes a Pod and waits until it is Ready.
func (b *bench) start(ctx context.Context, name string) (*corev1.Pod, error) {
	p, err := b.plane.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, b.mac.Pod(name, stage.Grace(30)), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a Pod: %w", err)
	}
	return p, await(ctx, name+" is ready", func() bool { return !b.first(p, isReady).IsZero() })
}

// first is when a version of the Pod was seen first that is as wanted.
func (b *bench) first(p *corev1.Pod, as func(stage.Seen) bool) time.Time {
	for _, s := range b.seen.Of(p.UID) {
		if as(s) {
			return s.At
		}
	}
	return time.Time{}
}

func anyVersion(stage.Seen) bool { return true }
func isGone(s stage.Seen) bool   { return s.Gone }
func isReady(s stage.Seen) bool {
	for _, c := range s.Pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// turns starts and deletes one Pod after the other.
func (b *bench) turns(ctx context.Context, s settings) error {
	if _, err := b.turn(ctx, "warm"); err != nil { // pulls the image
		return err
	}
	for i := range s.pods {
		t, err := b.turn(ctx, fmt.Sprintf("turn-%d", i))
		if err != nil {
			return err
		}
		b.out.seenToClone, b.out.runToReady = append(b.out.seenToClone, t.clone), append(b.out.runToReady, t.ready)
		b.out.endToGone, b.out.deleteToGone = append(b.out.endToGone, t.gone), append(b.out.deleteToGone, t.whole)
	}
	return nil
}

// turn is what one Pod took.
type turn struct{ clone, ready, gone, whole time.Duration }

func (b *bench) turn(ctx context.Context, name string) (turn, error) {
	p, err := b.start(ctx, name)
	if err != nil {
		return turn{}, err
	}
	began := time.Now()
	if err := b.plane.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil {
		return turn{}, fmt.Errorf("deleting a Pod: %w", err)
	}
	if err := await(ctx, name+" is gone", func() bool { return !b.first(p, isGone).IsZero() }); err != nil {
		return turn{}, err
	}
	clone, run, err := b.calls(p)
	if err != nil {
		return turn{}, err
	}
	gone := b.first(p, isGone)
	return turn{
		clone: clone.Start.Sub(b.first(p, anyVersion)), ready: b.first(p, isReady).Sub(run.Start),
		gone: gone.Sub(run.End), whole: gone.Sub(began),
	}, nil
}

// calls are tart's clone and run of a Pod's machine.
func (b *bench) calls(p *corev1.Pod) (clone, run stage.Call, err error) {
	all, err := b.mac.Calls()
	for _, c := range all {
		switch {
		case !strings.Contains(c.Machine(), string(p.UID)):
		case c.Verb() == "clone":
			clone = c
		case c.Verb() == "run":
			run = c
		}
	}
	if err == nil && (clone.Start.IsZero() || run.End.IsZero()) {
		err = fmt.Errorf("tart's journal has no clone and run of %s that ended", p.Name)
	}
	return clone, run, err
}

// adoption starts another agent over machines that run.
func (b *bench) adoption(ctx context.Context, _ settings) error {
	for i := range guests {
		if _, err := b.start(ctx, fmt.Sprintf("stays-%d", i)); err != nil {
			return err
		}
	}
	if err := b.mac.EndAgent(syscall.SIGKILL); err != nil {
		return err
	}
	b.mac.Log.Reset()
	began := time.Now()
	if err := b.mac.StartAgent(); err != nil {
		return err
	}
	var last time.Time
	err := await(ctx, "all machines are adopted", func() bool {
		n := 0
		for line := range strings.Lines(b.mac.Log.String()) {
			at, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
			if strings.Contains(line, "move=adopt") {
				n++
				last, _ = time.Parse(time.RFC3339Nano, at)
			}
		}
		return n == guests
	})
	b.out.adopt = last.Sub(began)
	return err
}

// settling is left to an agent before it is watched at rest.
const settling = 20 * time.Second

// rest watches an agent with two machines and ten images that has nothing to do.
func (b *bench) rest(ctx context.Context, s settings) error {
	sleep(ctx, settling)
	since := time.Now()
	before, err := stage.UsageOf(b.mac.AgentPID())
	if err != nil {
		return err
	}
	sleep(ctx, s.idle)
	after, err := stage.UsageOf(b.mac.AgentPID())
	if err != nil {
		return err
	}
	took := time.Since(since)
	requests, err := b.plane.NodeRequests(since)
	if err != nil {
		return err
	}
	b.out.idle = idle{
		took: took, rss: after.RSS, cpuPercent: float64(after.Ticks-before.Ticks) / took.Seconds(),
		requestsPerSecond: float64(len(requests)) / took.Seconds(), requests: map[string]int{},
	}
	for _, r := range requests {
		b.out.idle.requests[r.What()]++
	}
	for _, p := range b.mac.Processes() {
		if p.Role != stage.RoleShim {
			continue
		}
		if u, err := stage.UsageOf(p.PID); err == nil {
			b.out.idle.shimRSS = append(b.out.idle.shimRSS, u.RSS)
		}
	}
	return nil
}

// sleep waits, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
