package volume

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/macfleet/macfleet/internal/filetree"
)

func limited(v corev1.Volume, limit string) corev1.Volume {
	q := resource.MustParse(limit)
	v.EmptyDir.SizeLimit = &q
	return v
}

func memoryDir(name string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
}

func TestUsage(t *testing.T) {
	const report, memory, kib, mib = "report", "memory", 1 << 10, 1 << 20
	for name, c := range map[string]struct {
		share, file string
		bytes       int
		// want is empty where all is well.
		want string
	}{
		"below its limit":                {report, "volumes/a/f", 32 * kib, ""},
		"over its limit":                 {report, "volumes/a/deep/f", 100 * kib, `emptyDir volume "a" is larger than its sizeLimit`},
		"in memory, over its limit":      {memory, "volumes/m/f", 100 * kib, `emptyDir volume "m" is larger than its sizeLimit`},
		"in memory, by default":          {memory, "volumes/free/f", DefaultMemory, ""},
		"in memory, over the default":    {memory, "volumes/free/f", DefaultMemory + 4*kib, `emptyDir volume "free" is larger than its sizeLimit`},
		"without a limit":                {report, "volumes/unlimited/f", 90 * mib, ""},
		"more than ephemeral-storage":    {report, "volumes/unlimited/f", 101 * mib, "emptyDir volumes hold more than the limit of ephemeral-storage"},
		"beside the volumes":             {report, "f", besideDisk, ""},
		"too much beside the volumes":    {report, "x/f", besideDisk + 4*kib, "what the VM wrote to /Volumes/My Shared Files/macfleet beside its volumes is too much"},
		"a volume of its own making":     {report, "volumes/mine/f", besideDisk + 4*kib, "what the VM wrote to /Volumes/My Shared Files/macfleet beside its volumes is too much"},
		"a name that begins alike":       {report, "volumes/ab/f", besideDisk + 4*kib, "what the VM wrote to /Volumes/My Shared Files/macfleet beside its volumes is too much"},
		"too much beside, in memory":     {memory, "f", besideMemory + 4*kib, "what the VM wrote to /Volumes/My Shared Files/macfleet-memory beside its volumes is too much"},
		"of one name in the other share": {memory, "volumes/a/f", besideMemory + 4*kib, "what the VM wrote to /Volumes/My Shared Files/macfleet-memory beside its volumes is too much"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			p := aPod(
				[]corev1.Volume{limited(emptyDir("a"), "64Ki"), limited(memoryDir("m"), "64Ki"), memoryDir("free"), emptyDir("unlimited")},
				mount("a", "/a"), mount("m", "/m"), mount("free", "/f"), mount("unlimited", "/u"),
			)
			beside := *p.Spec.Containers[0].DeepCopy()
			beside.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("60Mi")}
			p.Spec.Containers = append(p.Spec.Containers, beside)
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("40Mi")}
			if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
				t.Fatal(err)
			}
			dir := map[string]string{report: b.disk + "/u-1/share/report", memory: b.ram + "/u-1/memory"}[c.share]
			path := filepath.Join(dir, c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, make([]byte, c.bytes), 0o600); err != nil {
				t.Fatal(err)
			}
			what := ""
			if excess := b.Usage(p); excess != nil {
				what = excess.What
				if excess.Used < int64(c.bytes) || excess.Used <= excess.Limit {
					t.Errorf("%s", excess)
				}
			}
			if d := cmp.Diff(c.want, what); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestTooManyFilesAreTooMuch: empty files have no bytes, and a directory inside another
// none either.
func TestTooManyFilesAreTooMuch(t *testing.T) {
	for name, c := range map[string]struct {
		files, levels int
		want          string
	}{
		"as many as may be": {files: 13},
		"one file more":     {files: 14, want: "the VM keeps more than 15 entries on the host"},
		"as deep as may be": {levels: 4},
		"one level more":    {levels: 5, want: "the VM keeps more than 6 directories inside one another on the host"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.o.Limits = filetree.Limits{Entries: 15, Depth: 6} // report/volumes/a are within
			p := aPod([]corev1.Volume{emptyDir("a")}, mount("a", "/a"))
			if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
				t.Fatal(err)
			}
			dir := b.disk + "/u-1/share/report/volumes/a"
			for n := range c.files {
				if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(n)), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.MkdirAll(dir+strings.Repeat("/d", c.levels), 0o700); err != nil {
				t.Fatal(err)
			}
			got := ""
			if excess := b.Usage(p); excess != nil {
				got = excess.String()
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestWhatAGuestClosedIsCounted: as root nothing is closed, so that it proves
// something for other users only.
func TestWhatAGuestClosedIsCounted(t *testing.T) {
	b := newBench(t)
	p := aPod([]corev1.Volume{limited(emptyDir("a"), "64Ki")}, mount("a", "/a"))
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	dir := b.disk + "/u-1/share/report/volumes/a/closed"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "f"), make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if b.Usage(p) == nil {
		t.Error("what is in a closed directory is not counted")
	}
}

func TestMemoryOfAPod(t *testing.T) {
	for name, c := range map[string]struct {
		volumes []corev1.Volume
		fits    bool
	}{
		"none":        {[]corev1.Volume{limited(emptyDir("a"), "100Gi")}, true},
		"by default":  {[]corev1.Volume{memoryDir("a")}, true},
		"two":         {[]corev1.Volume{memoryDir("a"), limited(memoryDir("b"), "32Mi")}, true},
		"one more":    {[]corev1.Volume{memoryDir("a"), limited(memoryDir("b"), "33Mi")}, false},
		"two unset":   {[]corev1.Volume{memoryDir("a"), memoryDir("b")}, false},
		"absurd ones": {[]corev1.Volume{limited(memoryDir("a"), "8Ei"), limited(memoryDir("b"), "8Ei")}, false},
	} {
		if sum := Memory(c.volumes); (sum <= MaxMemory) != c.fits {
			t.Errorf("%s: %d bytes", name, sum)
		}
	}
}
