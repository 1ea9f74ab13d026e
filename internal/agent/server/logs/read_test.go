package logs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// at makes the time of an entry.
func at(second int) time.Time { return time.Date(2026, 8, 1, 0, 0, second, 0, time.UTC) }

// line makes an entry.
func line(second int, stream, tag, content string) string {
	return fmt.Sprintf("%s %s %s %s\n", at(second).Format(time.RFC3339Nano), stream, tag, content)
}

// logOf writes files of a log, the newest first, and returns its path.
func logOf(t *testing.T, files ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "main.log")
	for i, content := range files {
		write(t, numbered(path, i), content)
	}
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func appendTo(t *testing.T, path, content string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(content); err != nil {
		t.Fatal(err)
	}
}

func number(n int64) *int64 { return &n }

func TestRead(t *testing.T) {
	old := line(1, Stdout, "F", "one") + line(2, Stderr, "F", "two")
	now := line(3, Stdout, "P", "thr") + line(4, Stdout, "P", "ee") + line(5, Stdout, "F", "!") + line(6, Stderr, "F", "four")
	for name, c := range map[string]struct {
		files       []string
		o           Options
		only        string
		want, stamp string
	}{
		"no file":         {want: ""},
		"empty":           {files: []string{""}, want: ""},
		"all":             {files: []string{now, old}, want: "one\ntwo\nthree!\nfour\n"},
		"five files":      {files: []string{line(9, Stdout, "F", "9"), line(8, Stdout, "F", "8"), line(7, Stdout, "F", "7"), line(6, Stdout, "F", "6"), line(5, Stdout, "F", "5")}, want: "5\n6\n7\n8\n9\n"},
		"stdout":          {files: []string{now, old}, only: Stdout, want: "one\nthree!\n"},
		"stderr":          {files: []string{now, old}, only: Stderr, want: "two\nfour\n"},
		"tail in current": {files: []string{now, old}, o: Options{TailLines: number(2)}, want: "!\nfour\n"},
		"tail of all of current": {
			files: []string{now, old}, o: Options{TailLines: number(4)}, want: "three!\nfour\n",
		},
		"tail over rotation": {files: []string{now, old}, o: Options{TailLines: number(5)}, want: "two\nthree!\nfour\n"},
		"tail of more":       {files: []string{now, old}, o: Options{TailLines: number(50)}, want: "one\ntwo\nthree!\nfour\n"},
		"tail 0":             {files: []string{now, old}, o: Options{TailLines: number(0)}, want: ""},
		"tail just rotated":  {files: []string{"", old}, o: Options{TailLines: number(1)}, want: "two\n"},
		"since":              {files: []string{now, old}, o: Options{Since: at(5)}, want: "!\nfour\n"},
		"since between":      {files: []string{now, old}, o: Options{Since: at(5).Add(1)}, want: "four\n"},
		"tail and since":     {files: []string{now, old}, o: Options{Since: at(6), TailLines: number(3)}, want: "four\n"},
		"limit":              {files: []string{now, old}, o: Options{LimitBytes: number(6)}, want: "one\ntw"},
		"limit of more":      {files: []string{now, old}, o: Options{LimitBytes: number(600)}, want: "one\ntwo\nthree!\nfour\n"},
		"limit counts the stream": {
			files: []string{now, old}, o: Options{LimitBytes: number(5)}, only: Stderr, want: "two\nf",
		},
		"timestamps": {files: []string{now}, o: Options{Timestamps: true}, want: "2026-08-01T00:00:03.000000000Z three!\n2026-08-01T00:00:06.000000000Z four\n"},
		"unfinished": {files: []string{now + "2026-08-01T00:00:07Z stdout F hal"}, want: "three!\nfour\n"},
		"no entries": {files: []string{"nonsense\n\n" + "x stdout F a\n" + "2026-08-01T00:00:07Z std F a\n" + "2026-08-01T00:00:07Z stdout F\n" + now}, want: "three!\nfour\n"},
		"empty line": {files: []string{line(1, Stdout, "F", "") + line(2, Stdout, "F", "")}, want: "\n\n"},
		"more tags":  {files: []string{line(1, Stdout, "P:x", "a") + line(2, Stdout, "F:x", "b")}, want: "ab\n"},
		"longest":    {files: []string{strings.Repeat("x", 3<<20) + "\n" + now}, want: "three!\nfour\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			stdout, stderr := io.Writer(&out), io.Writer(&out)
			switch c.only {
			case Stdout:
				stderr = nil
			case Stderr:
				stdout = nil
			}
			if err := Read(t.Context(), logOf(t, c.files...), c.o, stdout, stderr); err != nil {
				t.Fatal(err)
			}
			if out.String() != c.want {
				t.Errorf("got %q, want %q", out.String(), c.want)
			}
		})
	}
}

// A hole is where a rotation has just renamed a file, and the next one not yet.
func TestReadInTheMiddleOfARotation(t *testing.T) {
	for hole := range 4 {
		files := []string{line(4, Stdout, "F", "4"), line(3, Stdout, "F", "3"), line(2, Stdout, "F", "2"), line(1, Stdout, "F", "1")}
		path := logOf(t)
		for i, content := range files {
			if i >= hole {
				i++
			}
			write(t, numbered(path, i), content)
		}
		var out bytes.Buffer
		if err := Read(t.Context(), path, Options{}, &out, &out); err != nil || out.String() != "1\n2\n3\n4\n" {
			t.Errorf("hole at %d: %q, %v", hole, out.String(), err)
		}
	}
}

func TestTailOfLongFile(t *testing.T) {
	var all strings.Builder
	for i := range 20000 {
		all.WriteString(line(i%60, Stdout, "F", fmt.Sprint("line ", i)))
	}
	path := logOf(t, all.String())
	var out bytes.Buffer
	if err := Read(t.Context(), path, Options{TailLines: number(7000)}, &out, &out); err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(got) != 7000 || got[0] != "line 13000" || got[6999] != "line 19999" {
		t.Errorf("%d lines from %q to %q", len(got), got[0], got[len(got)-1])
	}
}

// received is what a follower wrote, to be awaited.
type received struct {
	mu   sync.Mutex
	text strings.Builder
	news chan struct{}
}

func newReceived() *received { return &received{news: make(chan struct{}, 1)} }

func (r *received) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default:
	}
	return r.text.Write(p)
}

func (r *received) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

func (r *received) await(t *testing.T, want string) {
	t.Helper()
	for r.String() != want {
		select {
		case <-r.news:
		case <-time.After(time.Minute):
			t.Fatalf("got %q, want %q", r.String(), want)
		}
	}
}

// following reads in the background until ended is set; what Read returned comes on
// the channel.
func following(t *testing.T, path string, o Options) (*received, *atomic.Bool, chan error) {
	t.Helper()
	out, ended, done := newReceived(), &atomic.Bool{}, make(chan error, 1)
	o.Ended = ended.Load
	go func() { done <- Read(t.Context(), path, o, out, out) }()
	return out, ended, done
}

func TestFollow(t *testing.T) {
	path := logOf(t)
	out, ended, done := following(t, path, Options{})
	appendTo(t, path, line(1, Stdout, "F", "late file"))
	out.await(t, "late file\n")
	appendTo(t, path, line(2, Stdout, "F", "more")+"2026-08-01T00:00:03Z std")
	out.await(t, "late file\nmore\n")
	appendTo(t, path, "out F torn\n")
	out.await(t, "late file\nmore\ntorn\n")
	for i := range 3 {
		rotate(t, path, 4)
		appendTo(t, path, line(4+i, Stdout, "F", fmt.Sprint("rotated ", i)))
	}
	out.await(t, "late file\nmore\ntorn\nrotated 0\nrotated 1\nrotated 2\n")
	appendTo(t, path, "2026-08-01T00:00:09Z stdout F killed")
	ended.Store(true)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	out.await(t, "late file\nmore\ntorn\nrotated 0\nrotated 1\nrotated 2\nkilled")
}

// blocked holds up its reader once, until it is told to go on.
type blocked struct {
	once          sync.Once
	reached, goOn chan struct{}
	received
}

func (b *blocked) Write(p []byte) (int, error) {
	b.once.Do(func() {
		close(b.reached)
		<-b.goOn
	})
	return b.received.Write(p)
}

// A client that did not read while its file was removed still gets all of that one,
// and goes on with the oldest there is.
func TestFollowOfAFileThatIsRotatedAway(t *testing.T) {
	path := logOf(t, line(1, Stdout, "F", "a"))
	out := &blocked{reached: make(chan struct{}), goOn: make(chan struct{}), received: received{news: make(chan struct{}, 1)}}
	var ended atomic.Bool
	done := make(chan error, 1)
	go func() { done <- Read(t.Context(), path, Options{Ended: ended.Load}, out, out) }()
	<-out.reached
	appendTo(t, path, line(2, Stdout, "F", "b"))
	for i := range 4 {
		rotate(t, path, 1)
		_ = os.Remove(numbered(path, 2))
		appendTo(t, path, line(4+i, Stdout, "F", fmt.Sprint("rotated ", i)))
	}
	close(out.goOn)
	out.await(t, "a\nb\nrotated 2\nrotated 3\n")
	ended.Store(true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFollowOfAnEndedLogEndsAtOnce(t *testing.T) {
	var out bytes.Buffer
	o := Options{Ended: func() bool { return true }}
	if err := Read(t.Context(), logOf(t, line(1, Stdout, "F", "a")), o, &out, &out); err != nil || out.String() != "a\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("client gone")
	o := Options{Ended: func() bool { return false }, Flush: func() { cancel(gone) }}
	if err := Read(ctx, logOf(t, line(1, Stdout, "F", "a")), o, io.Discard, nil); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

func TestFollowFromTailAndToLimit(t *testing.T) {
	path := logOf(t, line(1, Stdout, "F", "a")+line(2, Stdout, "F", "b"))
	out, _, done := following(t, path, Options{TailLines: number(1), LimitBytes: number(5)})
	out.await(t, "b\n")
	appendTo(t, path, line(3, Stdout, "F", "cdefg"))
	if err := <-done; err != nil || out.String() != "b\ncde" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// A file that was copied and emptied, as of a writer that keeps it open: what was
// written between our last look and the copy is in the copy.
func TestFollowOfACopiedAndEmptiedLog(t *testing.T) {
	for name, next := range map[string]string{
		"shorter": line(4, Stdout, "F", "d"),
		"longer":  line(4, Stdout, "F", "d") + line(5, Stdout, "F", strings.Repeat("e", 500)),
	} {
		path := logOf(t, line(1, Stdout, "F", "a")+line(2, Stdout, "F", "b"))
		out, ended, done := following(t, path, Options{TailLines: number(1)})
		out.await(t, "b\n")
		write(t, numbered(path, 1), line(1, Stdout, "F", "a")+line(2, Stdout, "F", "b")+line(2, Stdout, "F", "c"))
		write(t, path, next)
		want := "b\nc\nd\n"
		if name == "longer" {
			want += strings.Repeat("e", 500) + "\n"
		}
		out.await(t, want)
		ended.Store(true)
		if err := <-done; err != nil {
			t.Error(name, err)
		}
	}
}

// A writer with a full disk takes back the entry that it could not finish.
func TestFollowOfAnEntryThatIsTakenBack(t *testing.T) {
	path := logOf(t, line(1, Stdout, "F", "a"))
	out, ended, done := following(t, path, Options{})
	out.await(t, "a\n")
	whole := int64(len(line(1, Stdout, "F", "a")))
	appendTo(t, path, "2026-08-01T00:00:02Z stdout F this was not finis")
	if err := os.Truncate(path, whole); err != nil {
		t.Fatal(err)
	}
	appendTo(t, path, line(3, Stdout, "F", "b")+line(4, Stdout, "F", "a much longer line than the one that was taken back"))
	out.await(t, "a\nb\na much longer line than the one that was taken back\n")
	ended.Store(true)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// slow takes its time, so that the log is rotated away under its reader.
type slow struct{ w io.Writer }

func (s slow) Write(p []byte) (int, error) {
	for range 20000 {
		_ = p
	}
	return s.w.Write(p)
}

func TestReaderOfALogThatIsRotatedAllTheTime(t *testing.T) {
	const lines, perFile, keep = 3000, 20, 150
	path := logOf(t)
	out, ended, done := following(t, path, Options{})
	var want strings.Builder
	go func() {
		defer ended.Store(true)
		for i := 0; i < lines; {
			for range perFile {
				appendTo(t, path, line(i%60, Stdout, "P", fmt.Sprint(i, " "))+line(i%60, Stdout, "F", "!"))
				i++
			}
			rotate(t, path, keep)
		}
	}()
	for i := range lines {
		fmt.Fprintf(&want, "%d !\n", i)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if out.String() != want.String() {
		t.Errorf("%d bytes, want %d", len(out.String()), want.Len())
	}
	// Also those who come late read all of it once.
	var late bytes.Buffer
	if err := Read(t.Context(), path, Options{}, slow{&late}, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(want.String(), late.String()) || late.Len() == 0 {
		t.Errorf("a late reader got %d bytes", late.Len())
	}
}

// rotate is what a writer does.
func rotate(t *testing.T, path string, keep int) {
	t.Helper()
	for i := keep; i >= 1; i-- {
		_ = os.Rename(numbered(path, i), numbered(path, i+1))
	}
	if err := os.Rename(path, numbered(path, 1)); err != nil {
		t.Error(err)
	}
}

// Whoever reads while the log is rotated reads a piece without a hole or a repetition.
func TestReadsDuringRotations(t *testing.T) {
	path := logOf(t)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			appendTo(t, path, line(0, Stdout, "F", fmt.Sprint(i)))
			if i%10 == 9 {
				rotate(t, path, 4)
			}
		}
	})
	for range 500 {
		var out bytes.Buffer
		if err := Read(t.Context(), path, Options{}, &out, nil); err != nil {
			t.Error(err)
			continue
		}
		contiguous(t, out.String())
	}
	close(stop)
	writing.Wait()
}

func contiguous(t *testing.T, text string) {
	t.Helper()
	before := -1
	for _, l := range strings.Fields(text) {
		var n int
		if _, err := fmt.Sscan(l, &n); err != nil {
			t.Fatalf("torn line %q", l)
		}
		if before >= 0 && n != before+1 {
			t.Fatalf("%d after %d", n, before)
		}
		before = n
	}
}
