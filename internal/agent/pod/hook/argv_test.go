package hook

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A preStop hook that was answered has succeeded, as with a kubelet.
func TestARequestOfAPreStopHook(t *testing.T) {
	asked := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		w.WriteHeader(http.StatusInternalServerError)
	}))
	port := server.URL[strings.LastIndex(server.URL, ":")+1:]
	hook := corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{
		Path: "bye", Port: intstr.FromString(port), HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Who", Value: "kubelet"}},
	}}
	argv, err := Argv(corev1.Container{}, hook)
	if err != nil {
		t.Fatal(err)
	}
	run := func() error { return exec.CommandContext(t.Context(), argv[0], argv[1:]...).Run() }
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Skip("no curl")
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if r := <-asked; r.URL.Path != "/bye" || r.Header.Get("X-Who") != "kubelet" {
		t.Errorf("asked %s with %v", r.URL, r.Header)
	}
	server.Close()
	if run() == nil {
		t.Error("nobody answered")
	}
}

func TestAHookWithoutItsPort(t *testing.T) {
	for _, port := range []intstr.IntOrString{intstr.FromString("web"), intstr.FromInt32(0)} {
		hook := corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Port: port}}
		if argv, err := Argv(corev1.Container{}, hook); err == nil {
			t.Errorf("port %s: %q", port.String(), argv)
		}
	}
}
