package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/utils/ptr"
)

// ticking prints the time over and over, in nanoseconds.
const ticking = `while :; do date +%s%N; sleep 0.05; done`

// streams measures what kubectl does to a Pod that runs, of one Pod on either side.
func (b *bench) streams(ctx context.Context) error {
	down, err := freePort("")
	if err != nil {
		return err
	}
	up, err := freePort("")
	if err != nil {
		return err
	}
	var pods pair[*corev1.Pod]
	for _, s := range []struct {
		*side
		pod **corev1.Pod
	}{{b.sides.Kubelet, &pods.Kubelet}, {b.sides.Mac, &pods.Mac}} {
		if *s.pod, err = b.start(ctx, s.side, "streams", b.listening(s.netcat, down, up)+ticking); err != nil {
			return err
		}
		if err := b.serves(ctx, *s.pod); err != nil {
			return err
		}
	}
	for _, part := range []func(context.Context, pair[*corev1.Pod]) error{b.firstBytes, b.follow, b.bursts} {
		if err := part(ctx, pods); err != nil {
			return err
		}
	}
	if err := b.transfers(ctx, pods, down, up); err != nil {
		return err
	}
	for _, p := range []*corev1.Pod{pods.Kubelet, pods.Mac} {
		if err := b.remove(ctx, p, soon()); err != nil {
			return err
		}
	}
	return nil
}

// serves waits until commands can be run in a Pod: serving takes a certificate that the cluster signs.
func (b *bench) serves(ctx context.Context, p *corev1.Pod) error {
	var last error
	err := b.await(ctx, p.Name+" runs commands", func() bool {
		last = b.exec(ctx, p, io.Discard, "true")
		return last == nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}

// exec runs a command in a Pod as kubectl does.
func (b *bench) exec(ctx context.Context, p *corev1.Pod, out io.Writer, argv ...string) error {
	request := b.plane.Client.CoreV1().RESTClient().Get().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: "main", Command: argv, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	executor, err := remotecommand.NewWebSocketExecutor(b.plane.Config(), "GET", request.URL().String())
	if err != nil {
		return fmt.Errorf("preparing a command: %w", err)
	}
	var errs bytes.Buffer
	if err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: &errs}); err != nil {
		return fmt.Errorf("running %v in %s: %w: %s", argv, p.Name, err, &errs)
	}
	return nil
}

// arrival is when the first byte came.
type arrival struct{ at time.Time }

func (a *arrival) Write(p []byte) (int, error) {
	if a.at.IsZero() && len(p) > 0 {
		a.at = time.Now()
	}
	return len(p), nil
}

// firstBytes runs one command after the other, on either side in turn.
func (b *bench) firstBytes(ctx context.Context, pods pair[*corev1.Pod]) error {
	one := func(p *corev1.Pod, times *[]time.Duration) error {
		first, began := arrival{}, time.Now()
		if err := b.exec(ctx, p, &first, "echo", "here"); err != nil {
			return err
		}
		if first.at.IsZero() {
			return fmt.Errorf("a command in %s printed nothing", p.Name)
		}
		*times = append(*times, first.at.Sub(began))
		return nil
	}
	for range b.execs {
		if err := one(pods.Kubelet, &b.out.FirstByte.Kubelet); err != nil {
			return err
		}
		if err := one(pods.Mac, &b.out.FirstByte.Mac); err != nil {
			return err
		}
	}
	return nil
}

// follow follows both logs at once, and compares the time that each line has with that of its coming.
func (b *bench) follow(ctx context.Context, pods pair[*corev1.Pod]) error {
	var both sync.WaitGroup
	var errs pair[error]
	both.Go(func() { b.out.Line.Kubelet, errs.Kubelet = b.latencies(ctx, pods.Kubelet) })
	both.Go(func() { b.out.Line.Mac, errs.Mac = b.latencies(ctx, pods.Mac) })
	both.Wait()
	if errs.Kubelet != nil {
		return errs.Kubelet
	}
	return errs.Mac
}

func (b *bench) latencies(ctx context.Context, p *corev1.Pod) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	log, err := b.plane.Client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Follow: true, TailLines: ptr.To[int64](0)}).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("following the log of %s: %w", p.Name, err)
	}
	defer log.Close() //nolint:errcheck // only read
	var times []time.Duration
	for lines := bufio.NewScanner(log); len(times) < b.lines; {
		if !lines.Scan() {
			return nil, fmt.Errorf("the log of %s ended after %d lines: %w", p.Name, len(times), lines.Err())
		}
		now := time.Now()
		printed, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the log of %s has a line that is no time: %w", p.Name, err)
		}
		times = append(times, now.Sub(time.Unix(0, printed)))
	}
	return times, nil
}

// counted is what each command of a burst prints.
const counted = 5000

// bursts run many commands at once, and count what is missing of what they print.
func (b *bench) bursts(ctx context.Context, pods pair[*corev1.Pod]) error {
	var want strings.Builder
	for i := range counted {
		fmt.Fprintln(&want, i+1)
	}
	one := func(p *corev1.Pod) (lost, seconds float64) {
		got := make([]bytes.Buffer, b.burst)
		began := time.Now()
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				if err := b.exec(ctx, p, &got[i], "seq", strconv.Itoa(counted)); err != nil {
					say("%v", err)
				}
			})
		}
		all.Wait()
		for i := range got {
			lost += float64(missing(want.String(), got[i].String()))
		}
		return lost, time.Since(began).Seconds()
	}
	b.out.Lost.Kubelet, b.out.Burst.Kubelet = one(pods.Kubelet)
	b.out.Lost.Mac, b.out.Burst.Mac = one(pods.Mac)
	return ctx.Err()
}

// missing is how many bytes are not as they should be, from the first wrong one on.
func missing(want, got string) int {
	same := 0
	for same < min(len(want), len(got)) && want[same] == got[same] {
		same++
	}
	return max(len(want), len(got)) - same
}
