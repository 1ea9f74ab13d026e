package env

import (
	"context"
	"errors"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// shelf is a Source of a few objects in the namespace "build".
type shelf struct {
	secrets    map[string]map[string][]byte
	configMaps map[string]map[string]string
	forbidden  bool
	down       error
}

func (s shelf) fail(resource, namespace, name string) error {
	group := schema.GroupResource{Resource: resource}
	switch {
	case s.down != nil:
		return s.down
	case s.forbidden:
		return apierrors.NewForbidden(group, name, errors.New("no relation"))
	case namespace != "build":
		return errors.New("asked in namespace " + namespace)
	}
	return apierrors.NewNotFound(group, name)
}

func (s shelf) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if data, ok := s.secrets[name]; ok && namespace == "build" {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, s.fail("secrets", namespace, name)
}

func (s shelf) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	if data, ok := s.configMaps[name]; ok && namespace == "build" {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, s.fail("configmaps", namespace, name)
}

func sources() shelf {
	return shelf{
		secrets:    map[string]map[string][]byte{"s": {"token": []byte("hush\nhush"), "nul": []byte("a\x00b")}, "big": {"A": []byte(strings.Repeat("x", 1<<20))}},
		configMaps: map[string]map[string]string{"m": {"A": "from map", "app.name": "dots"}, "big": {"A": strings.Repeat("x", 1<<20)}},
	}
}

func pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "build", Name: "p", UID: "u-1",
			Labels: map[string]string{"app": "web", "b": "2"}, Annotations: map[string]string{"x/y": "a \"b\"\nc"},
		},
		Spec: corev1.PodSpec{
			NodeName: "mac-1", ServiceAccountName: "robot",
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("1500m")},
				Requests: corev1.ResourceList{"memory": resource.MustParse("1500Mi")},
			}}},
		},
	}
}

func facts() Facts {
	return Facts{HostIP: "10.0.0.7", PodIP: "192.168.64.7", Allocatable: corev1.ResourceList{"cpu": resource.MustParse("7"), "memory": resource.MustParse("14Gi")}}
}

func from(f func(*corev1.EnvVarSource)) *corev1.EnvVarSource {
	var s corev1.EnvVarSource
	f(&s)
	return &s
}

func secretKey(name, key string, optional bool) *corev1.EnvVarSource {
	return from(func(s *corev1.EnvVarSource) {
		s.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}
	})
}

func configKey(name, key string, optional bool) *corev1.EnvVarSource {
	return from(func(s *corev1.EnvVarSource) {
		s.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: &optional}
	})
}

func all(name, prefix string, optional bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional,
	}}
}

func allSecret(name string, optional bool) corev1.EnvFromSource {
	return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Optional: &optional}}
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name    string
		envFrom []corev1.EnvFromSource
		env     []corev1.EnvVar
		want    []string
	}{
		{"nothing", nil, nil, []string{}},
		{
			"env over envFrom, which expands too",
			[]corev1.EnvFromSource{all("m", "", false)},
			[]corev1.EnvVar{{Name: "B", Value: "[$(A)] [$(app.name)]"}, {Name: "A", Value: "mine"}},
			[]string{"A=mine", "B=[from map] [dots]", "app.name=dots"},
		},
		{"a later envFrom over an earlier", []corev1.EnvFromSource{allSecret("s2", false), all("m", "", false)}, nil, []string{"A=from map", "app.name=dots"}},
		{"a prefix", []corev1.EnvFromSource{all("m", "P_", false)}, nil, []string{"P_A=from map", "P_app.name=dots"}},
		{
			"optional ones that are not there",
			[]corev1.EnvFromSource{all("gone", "", true), allSecret("gone", true)},
			[]corev1.EnvVar{{Name: "X", ValueFrom: secretKey("gone", "k", true)}, {Name: "Y", ValueFrom: configKey("m", "gone", true)}, {Name: "Z", ValueFrom: secretKey("s", "gone", true)}},
			[]string{},
		},
		{
			"keys", nil,
			[]corev1.EnvVar{{Name: "T", ValueFrom: secretKey("s", "token", false)}, {Name: "C", ValueFrom: configKey("m", "A", false)}},
			[]string{"C=from map", "T=hush\nhush"},
		},
		{
			"only what stands before expands", nil,
			[]corev1.EnvVar{{Name: "A", Value: "$(B)"}, {Name: "B", Value: "b"}, {Name: "C", Value: "$$(B) $(B) $(nope)"}},
			[]string{"A=$(B)", "B=b", "C=$(B) b $(nope)"},
		},
		{"the last of two of one name", nil, []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "$(A)2"}}, []string{"A=12"}},
		{
			"values are not expanded when they come from objects",
			[]corev1.EnvFromSource{all("dollar", "", false)},
			[]corev1.EnvVar{{Name: "A", Value: "a"}},
			[]string{"A=a", "D=$(A)"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			src := sources()
			src.secrets["s2"] = map[string][]byte{"A": []byte("from secret")}
			src.configMaps["dollar"] = map[string]string{"D": "$(A)"}
			got, err := Resolve(t.Context(), pod(), corev1.Container{Name: "main", EnvFrom: c.envFrom, Env: c.env}, src, facts())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestResolveSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name    string
		envFrom []corev1.EnvFromSource
		env     []corev1.EnvVar
		want    string
	}{
		{
			"a missing Secret", nil,
			[]corev1.EnvVar{{Name: "T", ValueFrom: secretKey("gone", "k", false)}},
			"container main, env[0] (T): Secret build/gone does not exist",
		},
		{
			"a missing key", nil,
			[]corev1.EnvVar{{Name: "T", ValueFrom: secretKey("s", "k", false)}},
			`container main, env[0] (T): Secret build/s has no key "k"`,
		},
		{
			"a missing ConfigMap",
			[]corev1.EnvFromSource{all("gone", "", false)},
			nil,
			"container main, envFrom[0]: ConfigMap build/gone does not exist",
		},
		{
			"a missing key of a ConfigMap", nil,
			[]corev1.EnvVar{{Name: "T", ValueFrom: configKey("m", "k", false)}},
			`container main, env[0] (T): ConfigMap build/m has no key "k"`,
		},
		{
			"a NUL byte", nil,
			[]corev1.EnvVar{{Name: "T", ValueFrom: secretKey("s", "nul", false)}},
			"container main, environment: the value of T has a NUL byte, which no environment can hold",
		},
		{
			"a name that is none",
			[]corev1.EnvFromSource{all("m", "a=b", false)},
			nil,
			`container main, environment: "a=bA" is no name of a variable`,
		},
		{
			"more than fits",
			[]corev1.EnvFromSource{all("big", "", false)},
			nil,
			"container main, envFrom[0]: with it the environment has more than 1048576 bytes, which is what macOS allows",
		},
		{
			"more than fits, of a Secret",
			[]corev1.EnvFromSource{allSecret("big", false)},
			nil,
			"container main, envFrom[0]: with it the environment has more than 1048576 bytes, which is what macOS allows",
		},
		{
			"a value that grows with each variable", nil,
			[]corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1<<16)}, {Name: "B", Value: strings.Repeat("$(A)", 1024)}, {Name: "B", Value: "short"}},
			"container main, env[1] (B): it expands to more than 1048576 bytes, which is what macOS allows",
		},
		{
			"many that fit alone", nil,
			[]corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1<<19)}, {Name: "B", Value: "$(A)"}, {Name: "A", Value: "short"}},
			"container main, env[1] (B): with it the environment has more than 1048576 bytes, which is what macOS allows",
		},
		{
			"a file", nil,
			[]corev1.EnvVar{{Name: "F", ValueFrom: from(func(s *corev1.EnvVarSource) { s.FileKeyRef = &corev1.FileKeySelector{} })}},
			"container main, env[0] (F): fileKeyRef is not supported",
		},
		{"no source", []corev1.EnvFromSource{{}}, nil, "container main, envFrom[0]: it names neither a ConfigMap nor a Secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Resolve(t.Context(), pod(), corev1.Container{Name: "main", EnvFrom: c.envFrom, Env: c.env}, sources(), facts())
			var config *configError
			if !errors.As(err, &config) {
				t.Fatalf("error %v is no ConfigError", err)
			}
			if d := cmp.Diff(&configError{Reason: "CreateContainerConfigError", Message: c.want}, config); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestResolveForbiddenAndUnreachable(t *testing.T) {
	c := corev1.Container{Name: "main", Env: []corev1.EnvVar{{Name: "T", ValueFrom: secretKey("x", "k", true)}}}
	var config *configError
	_, err := Resolve(t.Context(), pod(), c, shelf{forbidden: true}, facts())
	if !errors.As(err, &config) || !strings.Contains(config.Message, "Secret build/x may not be read by this node") {
		t.Errorf("forbidden: %v", err)
	}
	down := errors.New("connection refused")
	_, err = Resolve(t.Context(), pod(), c, shelf{down: down}, facts())
	if !errors.Is(err, down) || errors.As(err, &config) {
		t.Errorf("an API server that is away gives %v", err)
	}
}

func TestField(t *testing.T) {
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "build", "metadata.uid": "u-1",
		"metadata.labels['app']": "web", "metadata.labels['none']": "", "metadata.annotations['x/y']": "a \"b\"\nc",
		"metadata.labels": "app=\"web\"\nb=\"2\"", "metadata.annotations": `x/y="a \"b\"\nc"`,
		"spec.nodeName": "mac-1", "spec.serviceAccountName": "robot",
		"status.hostIP": "10.0.0.7", "status.hostIPs": "10.0.0.7", "status.podIP": "192.168.64.7", "status.podIPs": "192.168.64.7",
	} {
		if got, err := Field(pod(), path, facts()); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", path, got, err, want)
		}
	}
	for _, path := range []string{"", "spec.hostname", "metadata.labels['app'", "metadata.labels[app]", "metadata.labels['", "spec.x['y']"} {
		if got, err := Field(pod(), path, facts()); err == nil {
			t.Errorf("%q = %q, want an error", path, got)
		}
	}
}

func TestResource(t *testing.T) {
	for _, c := range []struct{ resource, container, divisor, want string }{
		{"limits.cpu", "", "", "2"},
		{"limits.cpu", "main", "1m", "1500"},
		{"requests.memory", "", "1Mi", "1500"},
		{"requests.memory", "", "1Gi", "2"},
		{"limits.memory", "", "1Gi", "14"},
		{"requests.cpu", "", "", "0"},
		{"limits.memory", "", "-1", ""},
		{"limits.cpu", "other", "", ""},
		{"limits.pods", "", "", ""},
		{"memory", "", "", ""},
	} {
		ref := &corev1.ResourceFieldSelector{Resource: c.resource, ContainerName: c.container}
		if c.divisor != "" {
			ref.Divisor = resource.MustParse(c.divisor)
		}
		if got, err := Resource(pod(), "main", ref, facts()); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v = %q, %v", c, got, err)
		}
	}
}

func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "1", "B": "$(A)", "": "empty"}
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y$(A)": "x1y1", "$$(A)": "$(A)", "$$$(A)": "$1", "$(B)": "$(A)",
		"$": "$", "a$": "a$", "$A": "$A", "$(A": "$(A", "$(none)": "$(none)", "$()": "empty", "$$": "$", "$é(A)": "$é(A)", "$(A$(A)": "$(A$(A)",
	} {
		if got, err := expand(in, vars); got != want || err != nil {
			t.Errorf("%q expands to %q, %v, want %q", in, got, err, want)
		}
	}
}

func TestArgv(t *testing.T) {
	c := corev1.Container{Command: []string{"/bin/sh", "-c"}, Args: []string{"echo $(A) $(NO) $$(A)"}}
	want := []string{"/bin/sh", "-c", "echo x=y $(NO) $(A)"}
	got, err := Argv(c, []string{"A=x=y"})
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if got, err := Argv(corev1.Container{}, nil); len(got) != 0 || err != nil {
		t.Errorf("a container without a command has argv %q, %v", got, err)
	}
	for name, args := range map[string][]string{"one argument": {strings.Repeat("$(A)", 64)}, "all arguments": slices.Repeat([]string{"$(A)"}, 64)} {
		got, err := Argv(corev1.Container{Name: "main", Args: args}, []string{"A=" + strings.Repeat("x", maxBytes/32)})
		var config *configError
		if !errors.As(err, &config) || !strings.Contains(err.Error(), "more than 1048576 bytes") {
			t.Errorf("%s of twice what macOS allows: %d words, %v", name, len(got), err)
		}
	}
}

// TestScriptInAShell has a shell read back what was written, hostile values too.
func TestScriptInAShell(t *testing.T) {
	hostile := "a'b\"c`id`$(id)\\\nd\te '$HOME'é"
	script := Script([]string{"A=" + hostile, "app.name=x", "1B=y", "E=", "C=" + strings.Repeat("long ", 1000)})
	cmd := exec.Command("/bin/sh", "-c", ". /dev/stdin && printf '%s|%s|%s' \"$A\" \"$E\" \"${#C}\"")
	cmd.Stdin = strings.NewReader(string(script))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if want := hostile + "||5000"; string(out) != want {
		t.Errorf("the shell read %q, want %q", out, want)
	}
	for _, name := range []string{"app.name", "1B"} {
		if !strings.Contains(string(script), "# \""+name+"\" is no name") {
			t.Errorf("%s is left out without a word", name)
		}
	}
}

// Clients in a guest find the API server where its Mac does; a Pod may say otherwise.
func TestTheAPIServerIsInTheEnvironment(t *testing.T) {
	f := Facts{APIServer: &url.URL{Scheme: "https", Host: "api.test:6443"}}
	c := corev1.Container{Env: []corev1.EnvVar{{Name: "KUBERNETES_SERVICE_PORT", Value: "7"}}}
	got, err := Resolve(t.Context(), pod(), c, nil, f)
	want := []string{"KUBERNETES_SERVICE_HOST=api.test", "KUBERNETES_SERVICE_PORT=7", "KUBERNETES_SERVICE_PORT_HTTPS=6443"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	f.APIServer.Host = "[2001:db8::1]"
	if got, err := Resolve(t.Context(), pod(), corev1.Container{}, nil, f); err != nil || !slices.Contains(got, "KUBERNETES_SERVICE_HOST=2001:db8::1") || !slices.Contains(got, "KUBERNETES_SERVICE_PORT=443") {
		t.Errorf("%q, %v", got, err)
	}
}
