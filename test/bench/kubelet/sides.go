package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// patience bounds each wait.
const patience = 2 * time.Minute

// side is a Node that is measured.
type side struct {
	node string
	pid  func() int
	// requests are those that its kubelet has made since a moment.
	requests func(since time.Time) ([]stage.Request, error)
	// life is when the process of a Pod, or its VM, started and ended.
	life func(*corev1.Pod) (life, error)
	// netcat is nc in its containers.
	netcat string
}

// life of what a Pod is. A time is zero as long as it has not come.
type life struct {
	// begun is the start of the first thing that is done for the Pod, started that of its process or VM.
	begun, started, ended time.Time
}

// pair is the same of both sides.
type pair[T any] struct {
	Kubelet T `json:"kubelet"`
	Mac     T `json:"mac"`
}

// bench is what is measured, and by what.
type bench struct {
	settings
	plane *stage.Plane
	host  *stage.Mac
	seen  *stage.Recorder
	sides pair[*side]
	out   *measured
}

func measure(ctx context.Context, plane *stage.Plane, dir string, s settings) (m *measured, err error) {
	host, err := plane.NewMac(ctx, "mac")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, host.Close()) }()
	b := &bench{settings: s, plane: plane, host: host, seen: stage.Record(ctx, plane.Client, nil), out: &measured{Settings: s.told()}}
	defer b.seen.Stop()
	if err := b.startMac(); err != nil {
		return nil, err
	}
	log := &stage.Log{}
	stop, err := b.startKubelet(dir, log)
	if err != nil {
		return nil, err
	}
	defer stop()
	for _, part := range []func(context.Context) error{b.ready, b.turns, b.rest, b.streams} {
		if err := part(ctx); err != nil {
			return nil, fmt.Errorf("%w\nthe agent said: %s\nthe kubelet said: %s", err, host.Log.Tail(3000), log.Tail(3000))
		}
	}
	return b.out, nil
}

// startMac starts the agent, with a port that no other Mac of this machine has.
func (b *bench) startMac() error {
	port, err := freePort(b.host.Config.Host.Address)
	if err != nil {
		return err
	}
	b.host.Config.Kubelet.Port, b.host.Config.Kubelet.ClientCA = &port, b.plane.Config().CAData
	b.sides.Mac = &side{node: b.host.Name, pid: b.host.AgentPID, requests: b.plane.NodeRequests, life: b.lifeOfVM, netcat: "nc"}
	return b.host.StartAgent()
}

// startKubelet starts the hollow kubelet. Its containers find nc in dir.
func (b *bench) startKubelet(dir string, log *stage.Log) (stop func(), err error) {
	port, err := freePort("")
	if err != nil {
		return nil, err
	}
	journal, netcat := filepath.Join(dir, "lives"), filepath.Join(dir, "nc")
	if err := os.Symlink(b.host.Path("bin", "tart"), netcat); err != nil {
		return nil, fmt.Errorf("giving containers nc: %w", err)
	}
	hollow, err := b.plane.StartHollow(b.hollow, "hollow", log, fmt.Sprintf("-port=%d", port), "-journal="+journal)
	if err != nil {
		return nil, err
	}
	b.sides.Kubelet = &side{
		node: "hollow", pid: hollow.PID, requests: b.plane.HollowRequests, netcat: netcat,
		life: func(p *corev1.Pod) (life, error) { return lifeIn(journal, p) },
	}
	return hollow.Stop, nil
}

// each does something on either side, one after the other.
func (b *bench) each(do func(s *side, of func(*pair[float64]) *float64) error) error {
	if err := do(b.sides.Kubelet, func(p *pair[float64]) *float64 { return &p.Kubelet }); err != nil {
		return fmt.Errorf("on the kubelet: %w", err)
	}
	if err := do(b.sides.Mac, func(p *pair[float64]) *float64 { return &p.Mac }); err != nil {
		return fmt.Errorf("on the Mac: %w", err)
	}
	return nil
}

// freePort of an address of this machine.
func freePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// lifeIn is what the kubelet's journal says of the process of a Pod.
func lifeIn(journal string, p *corev1.Pod) (life, error) {
	text, err := os.ReadFile(journal)
	if err != nil {
		return life{}, fmt.Errorf("reading the journal: %w", err)
	}
	var l life
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != string(p.UID) {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, words[2])
		if err != nil {
			return life{}, fmt.Errorf("reading the journal: %w", err)
		}
		switch words[1] {
		case "started":
			l.begun, l.started = at, at
		case "ended":
			l.ended = at
		}
	}
	return l, nil
}

// lifeOfVM is what tart's journal says of the VM of a Pod.
func (b *bench) lifeOfVM(p *corev1.Pod) (life, error) {
	calls, err := b.host.Calls()
	var l life
	for _, c := range calls {
		switch {
		case !strings.Contains(c.Machine(), string(p.UID)):
		case c.Verb() == "clone":
			l.begun = c.Start
		case c.Verb() == "run":
			l.started, l.ended = c.Start, c.End
		}
	}
	return l, err
}

func (b *bench) await(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return stage.Await(ctx, what, done)
}

// ready waits for both Nodes.
func (b *bench) ready(ctx context.Context) error {
	for _, s := range []*side{b.sides.Kubelet, b.sides.Mac} {
		err := b.await(ctx, s.node+" is ready", func() bool {
			n, err := b.plane.Client.CoreV1().Nodes().Get(ctx, s.node, metav1.GetOptions{})
			return err == nil && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// start makes a Pod that runs a shell script on a side, and waits until it runs.
func (b *bench) start(ctx context.Context, s *side, name, script string) (*corev1.Pod, error) {
	p := b.host.Pod(name+"-"+s.node, stage.Grace(30), stage.Runs(script), stage.Restarts(corev1.RestartPolicyNever))
	p.Spec.NodeName = s.node
	p, err := b.plane.Client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a Pod: %w", err)
	}
	return p, b.await(ctx, p.Name+" runs", func() bool { return !b.first(p, runs).IsZero() })
}

// remove deletes a Pod, and waits until it is gone.
func (b *bench) remove(ctx context.Context, p *corev1.Pod, grace *int64) error {
	if err := b.plane.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		return fmt.Errorf("deleting a Pod: %w", err)
	}
	return b.await(ctx, p.Name+" is gone", func() bool { return !b.first(p, gone).IsZero() })
}

// soon is the grace of what is not measured.
func soon() *int64 { return ptr.To[int64](2) }

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
func gone(s stage.Seen) bool     { return s.Gone }
func runs(s stage.Seen) bool     { return s.Pod.Status.Phase == corev1.PodRunning }

func ready(s stage.Seen) bool {
	return slices.ContainsFunc(s.Pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
