package volume

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkBeside measures the life of a small Pod's volumes alone, and beside another
// Pod whose 400,000 empty files are weighed without a pause.
func BenchmarkBeside(b *testing.B) {
	for name, busy := range map[string]bool{"alone": false, "beside 400000 files": true} {
		b.Run(name, func(b *testing.B) {
			s := New(Options{Dir: b.TempDir(), Secrets: Directory(b.TempDir())})
			if busy {
				exhaust(b, s)
			}
			small := aPod([]corev1.Volume{emptyDir("a")}, mount("a", "/a"))
			small.UID = "small"
			for b.Loop() {
				if _, err := s.SetUp(b.Context(), small, Mode{}); err != nil {
					b.Fatal(err)
				}
				if s.Usage(small) != nil {
					b.Fatal("an empty volume is too large")
				}
				if err := s.TearDown(small.UID); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// exhaust weighs the files of another Pod until the benchmark ends.
func exhaust(b *testing.B, s *Store) {
	b.Helper()
	large := aPod([]corev1.Volume{emptyDir("a")}, mount("a", "/a"))
	if _, err := s.SetUp(b.Context(), large, Mode{}); err != nil {
		b.Fatal(err)
	}
	dir := filepath.Join(s.o.Dir, string(large.UID), "share/report/volumes/a")
	for n := range 400_000 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for s.Usage(large) == nil {
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	b.Cleanup(func() {
		close(stop)
		<-done
		if err := s.TearDown(large.UID); err != nil {
			b.Error(err)
		}
	})
}
