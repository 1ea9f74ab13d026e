package server

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const entries = "2026-08-01T00:00:01Z stdout F one\n2026-08-01T00:00:02Z stderr F two\n2026-08-01T00:00:03Z stdout F three\n"

// logged is a container with a log.
func logged(t *testing.T) Container {
	t.Helper()
	c := running("main")
	c.Log = filepath.Join(t.TempDir(), "main.log")
	if err := os.WriteFile(c.Log, []byte(entries), 0o600); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContainerLogs(t *testing.T) {
	b := newBench(t, nil)
	b.put(logged(t))
	for query, want := range map[string]string{
		"":                                "one\ntwo\nthree\n",
		"tailLines=1":                     "three\n",
		"tail=2":                          "two\nthree\n",
		"tail=all&tailLines=1":            "one\ntwo\nthree\n",
		"limitBytes=5":                    "one\nt",
		"stream=Stdout":                   "one\nthree\n",
		"stream=Stderr":                   "two\n",
		"stream=All&tailLines=1":          "three\n",
		"sinceTime=2026-08-01T00:00:02Z":  "two\nthree\n",
		"sinceSeconds=9223372036":         "one\ntwo\nthree\n",
		"sinceSeconds=9999999999999":      "one\ntwo\nthree\n",
		"sinceTime=null&timestamps=false": "one\ntwo\nthree\n",
		"timestamps=true&tailLines=1":     "2026-08-01T00:00:03.000000000Z three\n",
	} {
		if code, got := b.get("/containerLogs/ci/build/main?" + query); code != http.StatusOK || got != want {
			t.Errorf("%q: %d %q, want %q", query, code, got, want)
		}
	}
}

// What comes together with the end of a response, the API server does not pass on to a
// WebSocket.
func TestALogIsSentBeforeItsEnd(t *testing.T) {
	s := &Server{o: Options{Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler)}}
	w := httptest.NewRecorder()
	s.sendLog(w, httptest.NewRequest(http.MethodGet, "/", nil), logRequest{}, logged(t).Log, nil)
	if !w.Flushed || w.Body.Len() == 0 {
		t.Errorf("flushed: %v, %d bytes", w.Flushed, w.Body.Len())
	}
}

func TestBadRequestsForLogs(t *testing.T) {
	b := newBench(t, nil)
	b.put(logged(t))
	const undecodable, invalid = `{"message": "Unable to decode query."}`, `{"message": "Invalid request."}`
	for query, want := range map[string]string{
		"tailLines=x": undecodable, "limitBytes=": undecodable, "sinceSeconds=1.5": undecodable, "sinceTime=yesterday": undecodable, "tail=x": undecodable,
		"tailLines=-1": invalid, "limitBytes=0": invalid, "sinceSeconds=0": invalid, "sinceSeconds=5&sinceTime=2026-08-01T00:00:02Z": invalid,
		"stream=stdout": invalid, "stream=Stdout&tailLines=1": invalid,
	} {
		code := http.StatusBadRequest
		if want == invalid {
			code = http.StatusUnprocessableEntity
		}
		b.expect(b.client(), "/containerLogs/ci/build/main?"+query, "good", code, want)
	}
	b.expect(b.client(), "/containerLogs/ci/other/main", "good", http.StatusNotFound, `pod "other" does not exist`)
	b.expect(b.client(), "/containerLogs/ci/build/other", "good", http.StatusNotFound, `container "other" not found in pod "build"`)
}

func TestContainersWithoutLogs(t *testing.T) {
	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	terminated := func(id string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: id}}
	}
	const is = `container "main" in pod "build" is `
	for name, c := range map[string]struct {
		status   corev1.ContainerStatus
		previous bool
		want     string
	}{
		"creating":    {waiting("ContainerCreating"), false, is + "waiting to start: ContainerCreating"},
		"pulling":     {waiting("ErrImagePull"), false, is + "waiting to start: image can't be pulled"},
		"backing off": {waiting("ImagePullBackOff"), false, is + "waiting to start: trying and failing to pull image"},
		"refused for now": {corev1.ContainerStatus{State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "This node cannot honour: spec.hostNetwork"},
		}}, false, is + "waiting to start: CreateContainerConfigError: This node cannot honour: spec.hostNetwork"},
		"nothing":       {corev1.ContainerStatus{}, false, is + "waiting to start - no logs yet"},
		"never started": {corev1.ContainerStatus{State: terminated("")}, false, is + "terminated"},
		"never started, and why": {corev1.ContainerStatus{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Message: "no room"},
		}}, false, is + "terminated: no room"},
		"ended":                       {corev1.ContainerStatus{State: terminated("a")}, false, ""},
		"ended before":                {corev1.ContainerStatus{State: terminated(""), LastTerminationState: terminated("a")}, false, ""},
		"crashed":                     {corev1.ContainerStatus{State: waiting("CrashLoopBackOff").State, LastTerminationState: terminated("a")}, false, ""},
		"crashed before it ran":       {corev1.ContainerStatus{State: waiting("CrashLoopBackOff").State, LastTerminationState: terminated("")}, false, is + "terminated"},
		"running":                     {running("main").Pod.Status.ContainerStatuses[0], false, ""},
		"running, previous":           {running("main").Pod.Status.ContainerStatuses[0], true, `previous terminated container "main" in pod "build" not found`},
		"ended before, previous":      {corev1.ContainerStatus{LastTerminationState: terminated("a")}, true, ""},
		"ended before, previous lost": {corev1.ContainerStatus{LastTerminationState: terminated("")}, true, `previous terminated container "main" in pod "build" not found`},
	} {
		pod := running("main").Pod
		c.status.Name = "main"
		pod.Status.ContainerStatuses[0] = c.status
		err := logError(pod, "main", c.previous)
		if got := ""; err != nil && err.Error() != c.want || err == nil && got != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	refused := running("main").Pod
	refused.Status.Phase, refused.Status.Reason, refused.Status.Message = corev1.PodFailed, "OutOfcpu", "Node didn't have enough resource: cpu"
	for name, statuses := range map[string][]corev1.ContainerStatus{
		"no status": nil, "it waits for good": {{Name: "main", State: waiting("ContainerCreating").State}},
	} {
		refused.Status.ContainerStatuses = statuses
		const want = is + "not available: OutOfcpu: Node didn't have enough resource: cpu"
		if err := logError(refused, "main", false); err == nil || err.Error() != want {
			t.Errorf("refused, %s: %v, want %q", name, err, want)
		}
	}
	if err := logError(&corev1.Pod{}, "main", false); err == nil || !strings.HasSuffix(err.Error(), "is not available") {
		t.Errorf("without a status: %v", err)
	}
	b := newBench(t, nil)
	c := running("main")
	c.Pod.Status.ContainerStatuses[0].State = waiting("ContainerCreating").State
	b.put(c)
	b.expect(b.client(), "/containerLogs/ci/build/main", "good", http.StatusBadRequest, is+"waiting to start: ContainerCreating")
}

func TestLogsOfTheAttemptBefore(t *testing.T) {
	b := newBench(t, nil)
	c := logged(t)
	c.PreviousLog = c.Log + "-before"
	if err := os.WriteFile(c.PreviousLog, []byte("2026-08-01T00:00:00Z stdout F before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status := &c.Pod.Status.ContainerStatuses[0]
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: "tart://vm-0"}
	b.put(c)
	b.expect(b.client(), "/containerLogs/ci/build/main?previous=true", "good", http.StatusOK, "before\n")
	b.expect(b.client(), "/containerLogs/ci/build/main", "good", http.StatusOK, "one\n")
}

// follow opens a log that is followed, and returns its lines as they come.
func (b *bench) follow(query string) *bufio.Reader {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "https://"+b.addr+"/containerLogs/ci/build/main?follow=true&"+query, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer good")
	answer, err := b.client().Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { answer.Body.Close() })
	return bufio.NewReader(answer.Body)
}

func expectLine(t *testing.T, from *bufio.Reader, want string) {
	t.Helper()
	if got, err := from.ReadString('\n'); got != want {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

func TestFollowedLogEndsWithItsContainer(t *testing.T) {
	for name, end := range map[string]func(*bench, Container){
		"ended": func(b *bench, c Container) {
			c.Running = false
			b.put(c)
		},
		"restarted": func(b *bench, c Container) {
			c.Log += "-next"
			b.put(c)
		},
		"deleted": func(b *bench, _ Container) {
			b.mu.Lock()
			defer b.mu.Unlock()
			clear(b.containers)
		},
		"another Pod of that name": func(b *bench, c Container) {
			c.Pod = c.Pod.DeepCopy()
			c.Pod.UID = "uid-2"
			b.put(c)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			c := logged(t)
			b.put(c)
			lines := b.follow("tailLines=0")
			f, err := os.OpenFile(c.Log, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteString("2026-08-01T00:00:04Z stdout F four\n"); err != nil {
				t.Fatal(err)
			}
			expectLine(t, lines, "four\n")
			if _, err := f.WriteString("2026-08-01T00:00:05Z stdout F five\n"); err != nil {
				t.Fatal(err)
			}
			end(b, c)
			expectLine(t, lines, "five\n")
			expectLine(t, lines, "")
		})
	}
}

func TestFollowersThatAreTooMany(t *testing.T) {
	b := newBench(t, nil)
	b.put(logged(t))
	b.server.places = newPlaces(2, 2)
	for range 2 {
		expectLine(t, b.follow(""), "one\n")
	}
	b.expect(b.client(), "/containerLogs/ci/build/main", "good", http.StatusTooManyRequests, "maximum number of in-flight requests exceeded")
	b.expect(b.client(), "/healthz", "good", http.StatusOK, "ok")
}

// Readers of the logs of one Pod, of which each may hold files that are rotated away, have few
// places, and take none of other requests.
func TestReadersOfOnePod(t *testing.T) {
	b := newBench(t, nil)
	b.put(logged(t))
	if b.server.readers.mostOfPod != mostReaders {
		t.Errorf("%d readers have places", b.server.readers.mostOfPod)
	}
	b.server.readers = newPlaces(mostStreams, 2)
	for range 2 {
		expectLine(t, b.follow(""), "one\n")
	}
	b.expect(b.client(), "/containerLogs/ci/build/main", "good", http.StatusTooManyRequests, "maximum number of in-flight requests exceeded")
	b.guests.exec = func(context.Context, vm.GuestCommand, vm.Streams) (int, error) { return 0, nil }
	if code, text := b.send(b.client(), http.MethodPost, "/run/ci/build/main?cmd=id", "good"); code != http.StatusOK {
		t.Errorf("%d %s", code, text)
	}
	if n := b.server.places.taken(); n != 2 {
		t.Errorf("%d places are taken by two readers", n)
	}
}

// A client that does not read holds up itself only, also at the end.
func TestClientThatNeverReads(t *testing.T) {
	b := newBench(t, nil)
	c := logged(t)
	long := "2026-08-01T00:00:04Z stdout F " + strings.Repeat("x", 16000) + "\n"
	if err := os.WriteFile(c.Log, []byte(strings.Repeat(long, 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	b.put(c)
	for range 5 {
		b.follow("")
	}
	b.expect(b.client(), "/containerLogs/ci/build/main?limitBytes=3", "good", http.StatusOK, "xxx")
	begin := time.Now()
	b.stop()
	if took := time.Since(begin); took > patience {
		t.Errorf("stopped after %s", took)
	}
}
