package volume

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// One bound holds for all volumes of a Pod, whatever they are made of.
func TestAllVolumesOfAPodShareTheirRoom(t *testing.T) {
	b, half := newBench(t), make([]byte, maxPayload/2-perFile)
	b.shelf.secrets["half"] = map[string][]byte{"k": half}
	b.shelf.configMaps["half"] = &corev1.ConfigMap{BinaryData: map[string][]byte{"k": half}}
	full := []corev1.Volume{secret("a", "half"), configMap("b", "half")}
	if _, _, err := b.gatherAll(t.Context(), aPod(full, mount("a", "/a"), mount("b", "/b"))); err != nil {
		t.Errorf("what fits is refused: %v", err)
	}
	for _, last := range []corev1.Volume{
		secret("more", "s"),
		volumeOf("info", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "name", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}}),
		volumeOf("token", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}},
		}}}),
	} {
		p := aPod(append(slices.Clone(full), last), mount("a", "/a"), mount("b", "/b"), mount(last.Name, "/c"))
		_, _, err := b.gatherAll(t.Context(), p)
		if err == nil || !strings.HasPrefix(err.Error(), "volume "+last.Name+": ") || !strings.Contains(err.Error(), "more than 16777216 bytes together") {
			t.Errorf("%s beside full ones: %v", last.Name, err)
		}
	}
}

// Objects may grow once a Pod runs: what is too much stays as it was, and holds up no other.
func TestARefreshIsBoundedAndHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	b.shelf.secrets["a"], b.shelf.secrets["b"] = map[string][]byte{"k": []byte("old")}, map[string][]byte{"k": []byte("old")}
	p := aPod([]corev1.Volume{secret("a", "a"), secret("b", "b"), accessVolume()}, mount("a", "/a"), mount("b", "/b"), mount("kube-api-access-x", "/t"))
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	b.shelf.secrets["a"] = map[string][]byte{"k": make([]byte, maxPayload-1<<20)}
	b.shelf.secrets["b"] = map[string][]byte{"k": make([]byte, 1<<20)}
	b.shelf.token = "jwt2"
	if _, err := b.Refresh(t.Context(), p); err == nil || !strings.HasPrefix(err.Error(), "volume b: the files of the Pod's volumes have more than 16777216 bytes together") {
		t.Errorf("%v, want that of volume b alone", err)
	}
	for file, want := range map[string]string{"b/k": "old", "kube-api-access-x/token": "jwt2"} {
		if got, err := os.ReadFile(filepath.Join(b.ram, "u-1/secret/volumes", file)); err != nil || string(got) != want {
			t.Errorf("%s: %.20q, %v, want %q", file, got, err, want)
		}
	}
}

// What is refused keeps what it has, and that keeps its room.
func TestARefusedRefreshKeepsItsRoom(t *testing.T) {
	b := newBench(t)
	b.shelf.secrets["a"], b.shelf.secrets["b"] = map[string][]byte{"k": make([]byte, 15<<20)}, map[string][]byte{"k": []byte("old")}
	p := aPod([]corev1.Volume{secret("a", "a"), secret("b", "b")}, mount("a", "/a"), mount("b", "/b"))
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	b.shelf.secrets["a"], b.shelf.secrets["b"] = map[string][]byte{"k": make([]byte, 17<<20)}, map[string][]byte{"k": make([]byte, 15<<20)}
	_, err := b.Refresh(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "volume a: ") || !strings.Contains(err.Error(), "volume b: ") {
		t.Errorf("%v, want both refused", err)
	}
	// Room that a volume gives back is another's.
	b.shelf.secrets["a"] = map[string][]byte{"k": []byte("small")}
	if _, err := b.Refresh(t.Context(), p); err != nil {
		t.Errorf("%v, once the first is small again", err)
	}
}

// A file of one byte takes a block, and a link to it another.
func TestSmallFilesTakeTheirRoomToo(t *testing.T) {
	b, many := newBench(t), secret("v", "s")
	b.shelf.secrets["s"] = map[string][]byte{"k": []byte("x")}
	for i := range maxPayload/perFile + 1 {
		many.Secret.Items = append(many.Secret.Items, corev1.KeyToPath{Key: "k", Path: strconv.Itoa(i)})
	}
	if _, _, err := b.gatherAll(t.Context(), aPod([]corev1.Volume{many}, mount("v", "/v"))); err == nil {
		t.Errorf("%d files of a byte fit", len(many.Secret.Items))
	}
}
