package chaos

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/test/agent/stage"
)

var (
	roundsFlag = flag.Int("rounds", number("ROUNDS", 100), "rounds of chance, over all histories")
	seedFlag   = flag.Uint64("seed", 0, "play the history of this seed alone, and print it")
	fromFlag   = flag.Uint64("from", uint64(number("SEED", 1)), "the first seed")
	outageFlag = flag.Duration("outage", 2*time.Second, "the longest time without the API server")
	macsFlag   = flag.Int("macs", 4, "histories at a time")
)

// roundsEach is the length of a history: a Mac joins for so many rounds.
const roundsEach = 10

// secretName is a Secret that Pods mount.
const secretName = "shared"

// number is a setting from the environment.
func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// world is what all histories share.
type world struct {
	plane *stage.Plane
	seen  *stage.Recorder
	guard *guard
}

func newWorld(t *testing.T, o stage.Options) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = dir
	plane, err := stage.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = plane.Client.CoreV1().Secrets(metav1.NamespaceDefault).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: secretName}, StringData: map[string]string{"password": "marker"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{plane: plane, guard: newGuard()}
	w.seen = stage.Record(t.Context(), plane.Client, w.guard.podGone)
	watching, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.guard.watch(watching)
	}()
	t.Cleanup(func() {
		stop()
		<-done
		w.seen.Stop()
		if err := plane.Stop(context.Background()); err != nil { // the test's own context has ended
			t.Error(err)
		}
		if err := os.RemoveAll(filepath.Clean(dir)); err != nil {
			t.Error(err)
		}
	})
	return w
}

// TestChaos plays histories; each that breaks a promise is printed with its seed.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a real control plane")
	}
	w := newWorld(t, stage.Options{Race: true})
	began := time.Now()
	if *seedFlag != 0 {
		h := w.play(t, "", *seedFlag, roundsEach)
		h.report(t, true)
		return
	}
	var rounds, acts atomic.Int64
	each(*fromFlag, (*roundsFlag+roundsEach-1)/roundsEach, *macsFlag, func(seed uint64) bool {
		h := w.play(t, "", seed, roundsEach)
		rounds.Add(int64(h.round))
		acts.Add(int64(h.acts))
		h.report(t, false)
		return len(h.breaches()) == 0
	})
	t.Logf("seeds from %d: %d rounds, %d acts in %s", *fromFlag, rounds.Load(), acts.Load(), time.Since(began).Round(time.Second))
}

// each plays seeds, some at a time, until one says stop.
func each(from uint64, many, atOnce int, play func(seed uint64) bool) {
	var next atomic.Uint64
	next.Store(from)
	var stop atomic.Bool
	var players sync.WaitGroup
	for range atOnce {
		players.Go(func() {
			for !stop.Load() {
				seed := next.Add(1) - 1
				if seed >= from+uint64(many) {
					return
				}
				if !play(seed) {
					stop.Store(true)
				}
			}
		})
	}
	players.Wait()
}
