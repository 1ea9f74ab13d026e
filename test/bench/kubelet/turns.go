package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

// obedient ends as soon as it is told to.
const obedient = `trap 'exit 0' TERM; while :; do sleep 0.02; done`

// turns starts and deletes one Pod after the other, on either side in turn.
func (b *bench) turns(ctx context.Context) error {
	for i := range b.pods + 1 { // the first pulls the image
		for _, s := range []struct {
			*side
			turns *[]turn
		}{{b.sides.Kubelet, &b.out.Turns.Kubelet}, {b.sides.Mac, &b.out.Turns.Mac}} {
			t, err := b.turn(ctx, s.side, fmt.Sprintf("turn-%d", i))
			if err != nil {
				return err
			}
			if i > 0 {
				*s.turns = append(*s.turns, t)
			}
		}
	}
	return nil
}

// turn is what one Pod took: from seen to the start of the first thing that is done for it, from the start
// of its process or VM to Ready seen, from created to Running seen, and from the end of that to gone.
type turn struct{ start, ready, create, end time.Duration }

func (b *bench) turn(ctx context.Context, s *side, name string) (turn, error) {
	began := time.Now()
	p, err := b.start(ctx, s, name, obedient)
	if err != nil {
		return turn{}, err
	}
	if err := b.await(ctx, p.Name+" is ready", func() bool { return !b.first(p, ready).IsZero() }); err != nil {
		return turn{}, err
	}
	if err := b.remove(ctx, p, nil); err != nil {
		return turn{}, err
	}
	l, err := s.life(p)
	if err == nil && (l.begun.IsZero() || l.started.IsZero() || l.ended.IsZero()) {
		err = fmt.Errorf("nobody wrote down when %s started and ended", p.Name)
	}
	return turn{
		start: l.begun.Sub(b.first(p, anyVersion)), ready: b.first(p, ready).Sub(l.started),
		create: b.first(p, runs).Sub(began), end: b.first(p, gone).Sub(l.ended),
	}, err
}

const (
	// settling is left to both before they are watched at rest.
	settling = 20 * time.Second
	// guests run meanwhile on either side.
	guests = 2
)

// rest watches both with two Pods that ask for nothing.
func (b *bench) rest(ctx context.Context) error {
	var pods []*corev1.Pod
	for i := range guests {
		for _, s := range []*side{b.sides.Kubelet, b.sides.Mac} {
			p, err := b.start(ctx, s, fmt.Sprintf("rests-%d", i), "exec sleep 100000")
			if err != nil {
				return err
			}
			pods = append(pods, p)
		}
	}
	sleep(ctx, settling)
	if err := b.watchRest(ctx); err != nil {
		return err
	}
	for _, p := range pods {
		if err := b.remove(ctx, p, soon()); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) watchRest(ctx context.Context) error {
	since := time.Now()
	var before pair[float64]
	err := b.each(func(s *side, of func(*pair[float64]) *float64) error {
		u, err := stage.UsageOf(s.pid())
		*of(&before) = float64(u.Ticks)
		return err
	})
	if err != nil {
		return err
	}
	sleep(ctx, b.idle)
	return b.each(func(s *side, of func(*pair[float64]) *float64) error {
		u, err := stage.UsageOf(s.pid())
		if err != nil {
			return err
		}
		took := time.Since(since).Seconds()
		requests, err := s.requests(since)
		*of(&b.out.Memory), *of(&b.out.CPU) = float64(u.RSS)/1e6, (float64(u.Ticks)-*of(&before))/took
		*of(&b.out.Requests) = float64(len(requests)) / took
		return err
	})
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
