package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/env"
	"github.com/macfleet/macfleet/internal/agent/pod/objects"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

type shelf struct {
	secrets    map[string]map[string][]byte
	configMaps map[string]*corev1.ConfigMap
	token      string
	refreshAt  time.Time
	asked      []objects.TokenRequest
	tokenErr   error
}

func (s *shelf) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if data, ok := s.secrets[name]; ok {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
}

func (s *shelf) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if m, ok := s.configMaps[name]; ok {
		return m, nil
	}
	return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
}

func (s *shelf) Token(_ context.Context, _ *corev1.Pod, r objects.TokenRequest) (string, time.Time, error) {
	s.asked = append(s.asked, r)
	return s.token, s.refreshAt, s.tokenErr
}

type bench struct {
	*Store
	shelf     *shelf
	disk, ram string
	allowed   string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{
		disk: filepath.Join(t.TempDir(), "volumes"), ram: filepath.Join(t.TempDir(), "secrets"), allowed: t.TempDir(),
		shelf: &shelf{
			secrets: map[string]map[string][]byte{"s": {"user": []byte("u"), "password": []byte("hush")}},
			configMaps: map[string]*corev1.ConfigMap{
				"m":                {Data: map[string]string{"conf": "c"}, BinaryData: map[string][]byte{"bin": {0, 1}}},
				"kube-root-ca.crt": {Data: map[string]string{"ca.crt": "CERT"}},
			},
			token: "jwt", refreshAt: time.Unix(5000, 0),
		},
	}
	b.Store = New(Options{
		Dir: b.disk, Secrets: Directory(b.ram), Source: b.shelf, HostPaths: []string{b.allowed},
		Facts: func() env.Facts { return env.Facts{HostIP: "10.0.0.7"} },
	})
	return b
}

func aPod(volumes []corev1.Volume, m ...corev1.VolumeMount) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "build", Name: "p", UID: "u-1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Volumes: volumes, Containers: []corev1.Container{{Name: "main", VolumeMounts: m}}},
	}
}

func volumeOf(name string, s corev1.VolumeSource) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: s}
}

func emptyDir(name string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
}

func configMap(name, object string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: object}}})
}

func secret(name, object string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: object}})
}

func hostDir(name, path string) corev1.Volume {
	return volumeOf(name, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}})
}

func mount(name, at string) corev1.VolumeMount { return corev1.VolumeMount{Name: name, MountPath: at} }

func readOnly(m corev1.VolumeMount) corev1.VolumeMount {
	m.ReadOnly = true
	return m
}

func accessVolume() corev1.Volume {
	seconds := int64(3607)
	return volumeOf("kube-api-access-x", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
		}}},
	}}})
}

func TestSetUp(t *testing.T) {
	b := newBench(t)
	p := aPod(
		[]corev1.Volume{
			emptyDir("data"), configMap("conf", "m"), secret("creds", "s"), accessVolume(), hostDir("cache", b.allowed),
			volumeOf("mem", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}),
			volumeOf("info", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
			}}}),
			secret("nobody mounts it", "gone"),
		},
		mount("data", "/Users/admin/data"), readOnly(mount("data", "/Users/admin/look")), mount("conf", "/etc/conf"), mount("creds", "/etc/creds"),
		readOnly(mount("kube-api-access-x", tokenMountPath)), readOnly(mount("cache", "/opt/cache")), mount("mem", "/opt/mem"), mount("info", "/etc/info"),
	)
	got, err := b.SetUp(t.Context(), p, Mode{Report: true, Env: true})
	if err != nil {
		t.Fatal(err)
	}
	disk, ram := filepath.Join(b.disk, "u-1"), filepath.Join(b.ram, "u-1")
	want := Setup{
		Shares: []vm.Share{
			{Name: "macfleet", Path: disk + "/share/report"},
			{Name: "macfleet-hostpath-4", Path: b.allowed, ReadOnly: true},
			{Name: "macfleet-memory", Path: ram + "/memory"},
			{Name: "macfleet-ro", Path: disk + "/ro", ReadOnly: true},
			{Name: "macfleet-secret", Path: ram + "/secret", ReadOnly: true},
			{Name: "macfleet-view", Path: disk + "/share/report/volumes", ReadOnly: true},
		},
		Links: []Link{
			{Source: "/Volumes/My Shared Files/macfleet/volumes/data", MountPath: "/Users/admin/data"},
			{Source: "/Volumes/My Shared Files/macfleet-view/data", MountPath: "/Users/admin/look", ReadOnly: true},
			{Source: "/Volumes/My Shared Files/macfleet-ro/volumes/conf", MountPath: "/etc/conf", ReadOnly: true},
			{Source: "/Volumes/My Shared Files/macfleet-secret/volumes/creds", MountPath: "/etc/creds", ReadOnly: true},
			{Source: "/Volumes/My Shared Files/macfleet-secret/volumes/kube-api-access-x", MountPath: tokenMountPath, ReadOnly: true, Injected: true},
			{Source: "/Volumes/My Shared Files/macfleet-hostpath-4", MountPath: "/opt/cache", ReadOnly: true},
			{Source: "/Volumes/My Shared Files/macfleet-memory/volumes/mem", MountPath: "/opt/mem"},
			{Source: "/Volumes/My Shared Files/macfleet-ro/volumes/info", MountPath: "/etc/info", ReadOnly: true},
		},
		RefreshAt: time.Unix(5000, 0),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for dir, files := range map[string]map[string]string{
		disk + "/ro/volumes/conf":                  {"conf": "c", "bin": "\x00\x01"},
		disk + "/ro/volumes/info":                  {"labels": `app="web"`},
		ram + "/secret/volumes/creds":              {"user": "u", "password": "hush"},
		ram + "/secret/volumes/kube-api-access-x":  {"token": "jwt", "ca.crt": "CERT", "namespace": "build"},
		disk + "/share/report/volumes/data":        {},
		disk + "/share/report/volumes/../../../ro": {"volumes/conf/conf": "c", "volumes/conf/bin": "\x00\x01", "volumes/info/labels": `app="web"`},
	} {
		if d := cmp.Diff(files, readers(t, dir)); d != "" {
			t.Errorf("%s (-want +got):\n%s", dir, d)
		}
	}
	if d := cmp.Diff([]objects.TokenRequest{{Seconds: 3607}}, b.shelf.asked); d != "" {
		t.Errorf("tokens asked for (-want +got):\n%s", d)
	}
	if found, _ := exec.Command("grep", "-r", "-e", "hush", "-e", "jwt", b.disk).CombinedOutput(); len(found) > 0 {
		t.Errorf("secrets are on the disk:\n%s", found)
	}
	for _, dir := range []string{disk, ram} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s is open to others: %v", dir, info.Mode())
		}
	}
}

func TestSetUpOfNothingSharesNothing(t *testing.T) {
	b := newBench(t)
	got, err := b.SetUp(t.Context(), aPod([]corev1.Volume{emptyDir("unused")}), Mode{})
	if err != nil || len(got.Shares) != 0 || len(got.Links) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, made := b.o.Secrets.Made(); made {
		t.Error("a RAM disk was made for nothing")
	}
}

func TestItemsModesAndOptional(t *testing.T) {
	b := newBench(t)
	all, one, yes := int32(0o440), int32(0o400), true
	s := secret("creds", "s")
	s.Secret.DefaultMode, s.Secret.Items = &all, []corev1.KeyToPath{{Key: "user", Path: "a/b/user"}, {Key: "password", Path: "p", Mode: &one}}
	gone := secret("gone", "gone")
	gone.Secret.Optional = &yes
	keyless := configMap("keyless", "m")
	keyless.ConfigMap.Optional, keyless.ConfigMap.Items = &yes, []corev1.KeyToPath{{Key: "none", Path: "none"}}
	p := aPod([]corev1.Volume{s, gone, keyless}, mount("creds", "/c"), mount("gone", "/g"), mount("keyless", "/k"))
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	secrets := filepath.Join(b.ram, "u-1/secret/volumes")
	if d := cmp.Diff(map[string]string{"a/b/user": "u", "p": "hush"}, readers(t, secrets+"/creds")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for name, want := range map[string]fs.FileMode{"a/b/user": 0o440, "p": 0o400} {
		if info, err := os.Stat(filepath.Join(secrets, "creds", name)); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	if d := cmp.Diff(map[string]string{}, readers(t, secrets+"/gone")); d != "" {
		t.Errorf("an optional Secret that is not there (-want +got):\n%s", d)
	}
	// It appears, and is there at the next refresh.
	b.shelf.secrets["gone"] = map[string][]byte{"k": []byte("v")}
	if _, err := b.Refresh(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"k": "v"}, readers(t, secrets+"/gone")); d != "" {
		t.Errorf("after the refresh (-want +got):\n%s", d)
	}
}

func TestSetUpSaysWhatIsWrong(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.allowed, "file")
	out := filepath.Join(b.allowed, "out")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink("/etc", out)); err != nil {
		t.Fatal(err)
	}
	b.shelf.secrets["twins"] = map[string][]byte{"key": nil, "KEY": nil}
	items := func(v corev1.Volume, key, path string) corev1.Volume {
		v.ConfigMap.Items = []corev1.KeyToPath{{Key: key, Path: path}}
		return v
	}
	sub := func(m corev1.VolumeMount, path string) corev1.VolumeMount {
		m.SubPath = path
		return m
	}
	b.shelf.secrets["big"] = map[string][]byte{"k": make([]byte, 1<<20)}
	b.shelf.configMaps["big"] = &corev1.ConfigMap{Data: map[string]string{"k": strings.Repeat("x", 1<<20)}}
	many, projected := secret("v", "big"), volumeOf("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}})
	for i := range 17 {
		item := corev1.KeyToPath{Key: "k", Path: strconv.Itoa(i)}
		many.Secret.Items = append(many.Secret.Items, item)
		source := &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "big"}, Items: []corev1.KeyToPath{item}}
		projected.Projected.Sources = append(projected.Projected.Sources, corev1.VolumeProjection{ConfigMap: source})
	}
	for _, c := range []struct {
		name   string
		volume corev1.Volume
		mount  corev1.VolumeMount
		want   string
	}{
		{"one key at many paths", many, mount("v", "/v"), "volume v: the files of the Pod's volumes have more than 16777216 bytes together, with 8192 for each beside its own"},
		{"one object many times", projected, mount("v", "/v"), "volume v: sources[15]: the files of the Pod's volumes have more than 16777216 bytes together, with 8192 for each beside its own"},
		{"a missing Secret", secret("v", "gone"), mount("v", "/v"), "volume v: Secret build/gone does not exist"},
		{"a missing ConfigMap", configMap("v", "gone"), mount("v", "/v"), "volume v: ConfigMap build/gone does not exist"},
		{"a missing key", items(configMap("v", "m"), "none", "x"), mount("v", "/v"), `volume v: ConfigMap build/m has no key "none"`},
		{"keys of one file", secret("v", "twins"), mount("v", "/v"), `volume v: paths "KEY" and "key" differ only in case or in how a letter is composed, and are one file on a Mac: rename one, or choose by items`},
		{"a path out of the volume", items(configMap("v", "m"), "conf", "../../x"), mount("v", "/v"), `volume v: path "../../x" must be relative and without . or ..`},
		{"an absolute path", items(configMap("v", "m"), "conf", "/etc/x"), mount("v", "/v"), `volume v: path "/etc/x" must be relative and without . or ..`},
		{"a hostPath elsewhere", hostDir("v", "/etc"), mount("v", "/v"), "volume v: hostPath /etc is not below a directory that this node allows"},
		{"a hostPath with dots", hostDir("v", b.allowed+"/../x"), mount("v", "/v"), "volume v: hostPath " + b.allowed + "/../x is not below a directory that this node allows"},
		{"a hostPath that begins alike", hostDir("v", b.allowed+"-not"), mount("v", "/v"), "volume v: hostPath " + b.allowed + "-not is not below a directory that this node allows"},
		{"a hostPath that leads out", hostDir("v", out), mount("v", "/v"), "volume v: hostPath " + out + " is a link that leads out of " + b.allowed},
		{"a hostPath that is a file", hostDir("v", file), mount("v", "/v"), "volume v: hostPath " + file + " is no directory, and only directories can be shared with a VM"},
		{"a hostPath that is not there", hostDir("v", b.allowed+"/none"), mount("v", "/v"), "volume v: hostPath " + b.allowed + "/none does not exist on this node"},
		{"a subPath out of the volume", emptyDir("v"), sub(mount("v", "/v"), "../../x"), `volume v: subPath "../../x": it must be relative and lead nowhere up`},
		{"a subPath that is not there", configMap("v", "m"), sub(mount("v", "/v"), "none"), `volume v: subPath "none": the volume has no such file or directory`},
		{"no such volume", emptyDir("v"), mount("w", "/v"), `the Pod has no volume "w", which is mounted at /v`},
		{"the root of the guest", emptyDir("v"), mount("v", "/x/.."), `mount path "/x/.." is the root of the guest`},
		{"a line break", emptyDir("v"), mount("v", "/x\ny"), `mount path "/x\ny" has a control character`},
		{"our own shares", emptyDir("v"), mount("v", "/Volumes/My Shared Files/macfleet"), `mount path "/Volumes/My Shared Files/macfleet" is where the guest sees its shares`},
		{"another type", volumeOf("v", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), mount("v", "/v"), "volume v: volumes of its type are not supported"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.SetUp(t.Context(), aPod([]corev1.Volume{c.volume}, c.mount), Mode{})
			var mountErr *MountError
			if !errors.As(err, &mountErr) {
				t.Fatalf("%v is no MountError", err)
			}
			if d := cmp.Diff(c.want, mountErr.Message); d != "" || mountErr.Reason != env.ReasonConfig || mountErr.EventReason() != "FailedMount" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestMountsOfAllContainersAreInOneGuest(t *testing.T) {
	b := newBench(t)
	volumes := []corev1.Volume{emptyDir("a"), emptyDir("b")}
	for _, c := range []struct {
		name        string
		first, main corev1.VolumeMount
		links       int
	}{
		{"the same mount", mount("a", "/data"), mount("a", "/data/"), 1},
		{"two paths", mount("a", "/data"), mount("a", "/database"), 2},
		{"two volumes at one path", mount("a", "/data"), mount("b", "/data"), 0},
		{"one inside the other", mount("a", "/data"), mount("b", "/data/b"), 0},
		{"one around the other", mount("a", "/data/b"), mount("b", "/data"), 0},
		{"one writes and one reads", mount("a", "/data"), readOnly(mount("a", "/data")), 0},
	} {
		p := aPod(volumes, c.main)
		p.Spec.InitContainers = []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{c.first}}}
		got, err := b.SetUp(t.Context(), p, Mode{})
		if len(got.Links) != c.links || (err != nil) != (c.links == 0) {
			t.Errorf("%s: %v, %v", c.name, got.Links, err)
		}
	}
}

func TestSubPathsAndWhatContainersWroteStay(t *testing.T) {
	b := newBench(t)
	sub := mount("a", "/data")
	sub.SubPath = "x/y"
	key := mount("m", "/etc/conf")
	key.SubPath = "conf"
	p := aPod([]corev1.Volume{emptyDir("a"), configMap("m", "m")}, sub, key)
	got, err := b.SetUp(t.Context(), p, Mode{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Links[0].Source != "/Volumes/My Shared Files/macfleet/volumes/a/x/y" || got.Links[1].Source != "/Volumes/My Shared Files/macfleet-ro/volumes/m/conf" {
		t.Errorf("%+v", got.Links)
	}
	written := filepath.Join(b.disk, "u-1/share/report/volumes/a/x/y/written")
	if err := os.WriteFile(written, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(written); err != nil {
		t.Error("what a container wrote is gone after a restart of it")
	}
}

// TestHostileGuest has a guest replace directories of its share by links to the host.
func TestHostileGuest(t *testing.T) {
	sub := mount("a", "/data")
	sub.SubPath = "x/y"
	limit := resource.MustParse("1Mi")
	v := emptyDir("a")
	v.EmptyDir.SizeLimit = &limit
	p := aPod([]corev1.Volume{v}, sub, readOnly(mount("a", "/look")))
	for _, replaced := range []string{"volumes", "volumes/a", "volumes/a/x", "volumes/a/x/y"} {
		b := newBench(t)
		outside := t.TempDir()
		if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(b.disk, "u-1/share/report", replaced)
		if err := errors.Join(os.RemoveAll(path), os.Symlink(outside, path)); err != nil {
			t.Fatal(err)
		}
		if got, err := b.SetUp(t.Context(), p, Mode{}); err == nil {
			t.Errorf("%s leads out of the Pod's directory, and yet: %v", replaced, got.Shares)
		}
		if entries, _ := os.ReadDir(outside); len(entries) > 0 {
			t.Errorf("%s: the outside has %v", replaced, entries)
		}
		if err := os.WriteFile(filepath.Join(outside, "a"), make([]byte, 2*besideDisk), 0o600); err != nil {
			t.Fatal(err)
		}
		if excess := b.Usage(p); excess != nil {
			t.Errorf("%s: what is outside counts: %s", replaced, excess)
		}
		if err := b.TearDown("u-1"); err != nil {
			t.Errorf("%s: %v", replaced, err)
		}
		if _, err := os.Stat(outside); err != nil {
			t.Errorf("%s: the outside was removed", replaced)
		}
	}
}

func TestRefresh(t *testing.T) {
	b := newBench(t)
	p := aPod([]corev1.Volume{configMap("m", "m"), accessVolume()}, mount("m", "/m"), mount("kube-api-access-x", "/t"))
	if _, err := b.Refresh(t.Context(), p); err == nil {
		t.Error("a Pod that was not set up is refreshed")
	}
	if _, err := os.Stat(filepath.Join(b.disk, "u-1")); err == nil {
		t.Error("a refresh made the directories of a Pod")
	}
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	b.shelf.configMaps["m"] = &corev1.ConfigMap{Data: map[string]string{"conf": "new"}}
	b.shelf.token, b.shelf.refreshAt = "jwt2", time.Unix(9000, 0)
	due, err := b.Refresh(t.Context(), p)
	if err != nil || !due.Equal(time.Unix(9000, 0)) {
		t.Errorf("due %s, %v", due, err)
	}
	if d := cmp.Diff(map[string]string{"conf": "new"}, readers(t, filepath.Join(b.disk, "u-1/ro/volumes/m"))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	token, err := os.ReadFile(filepath.Join(b.ram, "u-1/secret/volumes/kube-api-access-x/token"))
	if err != nil || string(token) != "jwt2" {
		t.Errorf("token %q, %v", token, err)
	}
	b.shelf.tokenErr = errors.New("away")
	if _, err := b.Refresh(t.Context(), p); !errors.Is(err, b.shelf.tokenErr) {
		t.Errorf("a token that cannot be had: %v", err)
	}
	if token, err = os.ReadFile(filepath.Join(b.ram, "u-1/secret/volumes/kube-api-access-x/token")); err != nil || string(token) != "jwt2" {
		t.Errorf("a failed refresh left %q, %v", token, err)
	}
}

// A kubelet mounts each volume by itself: one that fails keeps no other from being renewed.
func TestAVolumeThatFailsHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	p := aPod([]corev1.Volume{configMap("m", "m"), accessVolume(), secret("s", "s")}, mount("m", "/m"), mount("kube-api-access-x", "/t"), mount("s", "/s"))
	if _, err := b.SetUp(t.Context(), p, Mode{}); err != nil {
		t.Fatal(err)
	}
	delete(b.shelf.configMaps, "m")
	delete(b.shelf.secrets, "s")
	b.shelf.token, b.shelf.refreshAt = "jwt2", time.Unix(9000, 0)
	due, err := b.Refresh(t.Context(), p)
	want := "volume m: ConfigMap build/m does not exist\nvolume s: Secret build/s does not exist"
	if err == nil || err.Error() != want || !due.Equal(time.Unix(9000, 0)) {
		t.Errorf("due %s, %v", due, err)
	}
	for file, want := range map[string]string{
		filepath.Join(b.ram, "u-1/secret/volumes/kube-api-access-x/token"): "jwt2",
		filepath.Join(b.disk, "u-1/ro/volumes/m/conf"):                     "c",
		filepath.Join(b.ram, "u-1/secret/volumes/s/user"):                  "u",
	} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}

func TestNoRAMDisk(t *testing.T) {
	b := newBench(t)
	b.o.Secrets = noRAMDisk{}
	if _, err := b.SetUp(t.Context(), aPod([]corev1.Volume{emptyDir("a")}, mount("a", "/a")), Mode{}); err != nil {
		t.Errorf("a Pod without secrets: %v", err)
	}
	_, err := b.SetUp(t.Context(), aPod([]corev1.Volume{secret("s", "s")}, mount("s", "/s")), Mode{})
	want := "secrets and volumes in memory need a RAM disk on the host: this node is configured without one"
	if err == nil || err.Error() != want {
		t.Errorf("a Pod with a Secret: %v", err)
	}
}
