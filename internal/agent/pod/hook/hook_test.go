package hook_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"

	"github.com/macfleet/macfleet/internal/agent/pod/action"
	"github.com/macfleet/macfleet/internal/agent/pod/actiontest"
	"github.com/macfleet/macfleet/internal/agent/pod/hook"
)

func runner(g *actiontest.Guest) hook.Runner {
	return hook.Runner{
		Container: corev1.Container{Name: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}},
		Guest:     g, Clock: clock.RealClock{},
	}
}

func gets(a corev1.HTTPGetAction) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{HTTPGet: &a}
}

func serve(t *testing.T, s *http.Server, l net.Listener) {
	t.Helper()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
}

// TestAHookThatHangsEndsWithItsContext: a grace period ends it, nothing else.
func TestAHookThatHangsEndsWithItsContext(t *testing.T) {
	for name, h := range map[string]*corev1.LifecycleHandler{
		"sleep":   {Sleep: &corev1.SleepAction{Seconds: 3600}},
		"httpGet": gets(corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}),
		"deaf":    gets(corev1.HTTPGetAction{Port: intstr.FromInt32(7)}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &actiontest.Guest{Deaf: 7, Command: func(ctx context.Context, _ []string) (string, int, error) {
					<-ctx.Done()
					return "", 0, ctx.Err()
				}}
				l := g.Listen("", 8080)
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						defer c.Close()
					}
				}()
				defer l.Close()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				begin := time.Now()
				if err := runner(g).Run(ctx, h); err == nil {
					t.Error("it succeeded")
				}
				if took := time.Since(begin); took != 20*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

func TestASleepTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := runner(&actiontest.Guest{}).Run(t.Context(), &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}); err != nil {
			t.Error(err)
		}
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

func TestAKubeletRunsNoOtherHandler(t *testing.T) {
	for name, h := range map[string]*corev1.LifecycleHandler{"none": {}, "tcpSocket": {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}} {
		if err := runner(&actiontest.Guest{}).Run(t.Context(), h); !errors.Is(err, action.ErrNoHandler) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAnyAnswerIsASuccess: unlike a probe, a hook only has to be heard.
func TestAnyAnswerIsASuccess(t *testing.T) {
	for _, c := range []struct {
		name, host string
		port       intstr.IntOrString
		status     int
	}{
		{"by number", "", intstr.FromInt32(8080), 200},
		{"by name", "", intstr.FromString("web"), 200},
		{"a failure of the server", "", intstr.FromInt32(8080), 500},
		{"another host", "sink.example", intstr.FromInt32(8080), 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := &actiontest.Guest{}
			var got *http.Request
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r
				w.WriteHeader(c.status)
			})}
			serve(t, s, g.Listen(c.host, 8080))
			err := runner(g).Run(t.Context(), gets(corev1.HTTPGetAction{Host: c.host, Port: c.port, Path: "/echo?msg=preStop", HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Why", Value: "drain"}}}))
			if err != nil {
				t.Fatal(err)
			}
			if got.URL.RequestURI() != "/echo?msg=preStop" || got.Header.Get("X-Why") != "drain" || !strings.HasPrefix(got.UserAgent(), "kube-lifecycle/") {
				t.Errorf("asked for %s with %v", got.URL, got.Header)
			}
		})
	}
	if err := runner(&actiontest.Guest{}).Run(t.Context(), gets(corev1.HTTPGetAction{Port: intstr.FromInt32(81)})); !errors.Is(err, actiontest.ErrRefused) {
		t.Errorf("a port where nobody listens: %v", err)
	}
	if err := runner(&actiontest.Guest{}).Run(t.Context(), gets(corev1.HTTPGetAction{Port: intstr.FromString("admin")})); err == nil || !strings.Contains(err.Error(), `"admin"`) {
		t.Errorf("a port of no name: %v", err)
	}
}

// TestHTTPSFallsBackToHTTP as a kubelet's hooks do, without what was meant for TLS alone.
func TestHTTPSFallsBackToHTTP(t *testing.T) {
	g := &actiontest.Guest{}
	var got http.Header
	s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header })}
	serve(t, s, g.Listen("", 8080))
	r := runner(g)
	fell := ""
	r.FellBack = func(host string) { fell = host }
	err := r.Run(t.Context(), gets(corev1.HTTPGetAction{
		Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(8080),
		HTTPHeaders: []corev1.HTTPHeader{{Name: "Authorization", Value: "Bearer x"}, {Name: "X-Other", Value: "y"}},
	}))
	if err != nil || fell == "" {
		t.Errorf("error %v, fell back to %q", err, fell)
	}
	if got.Get("Authorization") != "" || got.Get("X-Other") != "y" {
		t.Errorf("sent in the clear: %v", got)
	}
}
