package probe

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/pod/actiontest"
)

var webContainer = corev1.Container{Name: "app", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}}

// made is one probe of a guest.
func made(t *testing.T, g *actiontest.Guest, h corev1.ProbeHandler, seconds int32) (result, error) {
	t.Helper()
	return check(t.Context(), &corev1.Probe{ProbeHandler: h, TimeoutSeconds: seconds}, &webContainer, g)
}

// patience is a timeout in seconds: a busy machine takes seconds for a handshake, and only
// a probe that is to time out should.
func patience(message string) int32 {
	if strings.Contains(message, "deadline exceeded") || message == "timeout" {
		return 1
	}
	return 60
}

func gets(a corev1.HTTPGetAction) corev1.ProbeHandler { return corev1.ProbeHandler{HTTPGet: &a} }

// site answers as its paths say.
func site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, _ = fmt.Sscan(r.PathValue("code"), &code)
		w.WriteHeader(code)
		fmt.Fprint(w, "s3cret")
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.Query().Get("loc"), http.StatusFound)
	})
	mux.HandleFunc("/header", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s|%v|%s|%s", r.Host, r.Header.Get("X-Probe"), r.Header["Accept"], r.UserAgent(), r.Header.Get("Accept-Encoding"))
	})
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 100<<10)) })
	mux.HandleFunc("/heads", func(w http.ResponseWriter, _ *http.Request) {
		for i := range 1000 {
			w.Header().Set(fmt.Sprint("X-", i), strings.Repeat("x", 1<<10))
		}
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return mux
}

func TestHTTP(t *testing.T) {
	g := &actiontest.Guest{Deaf: 7}
	plain, other := &http.Server{Handler: site()}, httptest.NewUnstartedServer(site())
	serve(t, plain, g.Listen("", 8080))
	serve(t, plain, g.Listen("", 9090))
	serve(t, plain, g.Listen("db.example", 80))
	other.Listener.Close()
	other.Listener = g.Listen("", 8443)
	other.EnableHTTP2 = true
	other.StartTLS()
	t.Cleanup(other.Close)
	web := intstr.FromString("web")
	for _, c := range []struct {
		name    string
		action  corev1.HTTPGetAction
		healthy bool
		warning bool
		message string // a part of it
	}{
		{"200", corev1.HTTPGetAction{Port: web, Path: "/status/200"}, true, false, ""},
		{"no slash", corev1.HTTPGetAction{Port: web, Path: "status/204"}, true, false, ""},
		{"399", corev1.HTTPGetAction{Port: web, Path: "/status/399"}, true, true, ""},
		{"400", corev1.HTTPGetAction{Port: web, Path: "/status/400"}, false, false, "HTTP probe failed with statuscode: 400"},
		{"500", corev1.HTTPGetAction{Port: web, Path: "/status/500"}, false, false, "HTTP probe failed with statuscode: 500"},
		{"a redirect on the host", corev1.HTTPGetAction{Port: web, Path: "/to?loc=/status/200"}, true, false, "s3cret"},
		{"a redirect to a failure", corev1.HTTPGetAction{Port: web, Path: "/to?loc=/status/500"}, false, false, "500"},
		{"a redirect to another port", corev1.HTTPGetAction{Port: web, Path: "/to?loc=http://127.0.0.1:9090/status/200"}, true, false, "s3cret"},
		{"a redirect to another host", corev1.HTTPGetAction{Port: web, Path: "/to?loc=http://0.0.0.0/"}, true, true, `Probe terminated redirects, Response body: <a href="http://0.0.0.0/">Found</a>.`},
		{"redirects without end", corev1.HTTPGetAction{Port: web, Path: "/to?loc=/to?loc=/to"}, false, false, ""},
		{"headers", corev1.HTTPGetAction{Port: web, Path: "/header", HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "app.example"}, {Name: "X-Probe", Value: "1"}}}, true, false, "app.example|1|[*/*]|kube-probe/1.36|"},
		{"headers without Accept", corev1.HTTPGetAction{Port: web, Path: "/header", HTTPHeaders: []corev1.HTTPHeader{{Name: "Accept", Value: ""}, {Name: "User-Agent", Value: "me"}}}, true, false, "127.0.0.1:8080||[]|me|"},
		{"a megabyte of headers", corev1.HTTPGetAction{Port: web, Path: "/heads"}, false, false, "headers exceeded"},
		{"a megabyte of headers over HTTP/2", corev1.HTTPGetAction{Port: intstr.FromInt32(8443), Scheme: corev1.URISchemeHTTPS, Path: "/heads"}, false, false, "PROTOCOL_ERROR"},
		{"TLS that nobody can verify", corev1.HTTPGetAction{Port: intstr.FromInt32(8443), Scheme: corev1.URISchemeHTTPS, Path: "/status/200"}, true, false, ""},
		{"TLS to a server without", corev1.HTTPGetAction{Port: web, Scheme: corev1.URISchemeHTTPS, Path: "/status/200"}, false, false, "HTTP response to HTTPS client"},
		{"another host", corev1.HTTPGetAction{Host: "db.example", Port: intstr.FromInt32(80), Path: "/status/200"}, true, false, ""},
		{"nobody listens", corev1.HTTPGetAction{Port: intstr.FromInt32(81)}, false, false, "connection refused"},
		{"it hangs", corev1.HTTPGetAction{Port: web, Path: "/hang"}, false, false, "context deadline exceeded"},
		{"it takes no connection", corev1.HTTPGetAction{Port: intstr.FromInt32(7)}, false, false, "context deadline exceeded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := made(t, g, gets(c.action), patience(c.message))
			if err != nil || r.healthy != c.healthy || r.warning != c.warning || !strings.Contains(r.message, c.message) {
				t.Errorf("%+v, %v", r, err)
			}
			if !r.healthy && strings.Contains(r.message, "s3cret") {
				t.Errorf("a failure tells the body: %s", r.message)
			}
		})
	}
	if r, err := made(t, g, gets(corev1.HTTPGetAction{Port: web, Path: "/long"}), patience("")); err != nil || !r.healthy || len(r.message) != 10<<10 {
		t.Errorf("of a long body %d bytes were read, %v", len(r.message), err)
	}
	if _, err := made(t, g, gets(corev1.HTTPGetAction{Port: intstr.FromString("admin")}), 1); err == nil {
		t.Error("a port of a name that the container does not have was probed")
	}
}

func serve(t *testing.T, s *http.Server, l net.Listener) {
	t.Helper()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
}

func TestTCP(t *testing.T) {
	g := &actiontest.Guest{Deaf: 7}
	serve(t, &http.Server{}, g.Listen("", 8080))
	for _, c := range []struct {
		name    string
		port    intstr.IntOrString
		healthy bool
		message string
	}{
		{"by number", intstr.FromInt32(8080), true, ""},
		{"by name", intstr.FromString("web"), true, ""},
		{"nobody listens", intstr.FromInt32(81), false, "connection refused"},
		{"it takes no connection", intstr.FromInt32(7), false, "deadline exceeded"},
	} {
		r, err := made(t, g, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: c.port}}, patience(c.message))
		if err != nil || r.healthy != c.healthy || !strings.Contains(r.message, c.message) {
			t.Errorf("%s: %+v, %v", c.name, r, err)
		}
	}
	if _, err := made(t, g, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(0)}}, 1); err == nil {
		t.Error("port 0 was probed")
	}
}

func TestGRPC(t *testing.T) {
	g := &actiontest.Guest{Deaf: 7}
	states := health.NewServer()
	states.SetServingStatus("good", grpc_health_v1.HealthCheckResponse_SERVING)
	states.SetServingStatus("bad", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	healthy, without := grpc.NewServer(), grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(healthy, states)
	heads := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, _ any, _ *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, grpc.SetHeader(ctx, metadata.Pairs("x", strings.Repeat("x", 1<<20)))
	}))
	grpc_health_v1.RegisterHealthServer(heads, states)
	for port, s := range map[int]*grpc.Server{5000: healthy, 5001: without, 5003: heads} {
		l := g.Listen("", port)
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
	}
	for _, c := range []struct {
		name    string
		port    int32
		service *string
		healthy bool
		message string
	}{
		{"the server", 5000, nil, true, "service healthy"},
		{"a service", 5000, ptr.To("good"), true, "service healthy"},
		{"one that does not serve", 5000, ptr.To("bad"), false, `service unhealthy (responded with "NOT_SERVING")`},
		{"one that is not known", 5000, ptr.To("other"), false, "NotFound"},
		{"no health protocol", 5001, nil, false, "does not implement the grpc health protocol"},
		{"a megabyte of headers", 5003, nil, false, "INTERNAL_ERROR"},
		{"nobody listens", 5002, nil, false, "failed to connect service"},
		{"it takes no connection", 7, nil, false, "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := made(t, g, corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: c.port, Service: c.service}}, patience(c.message))
			if err != nil || r.healthy != c.healthy || !strings.Contains(r.message, c.message) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestExecExpandsWhatTheContainerSpells(t *testing.T) {
	g := &actiontest.Guest{Command: func(context.Context, []string) (string, int, error) { return "", 0, nil }}
	c := corev1.Container{Env: []corev1.EnvVar{{Name: "FILE", Value: "/tmp/up"}}}
	r, err := check(t.Context(), &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-f", "$(FILE)"}}}}, &c, g)
	if err != nil || !r.healthy || g.Commands()[0] != "test -f /tmp/up" {
		t.Errorf("%+v, %v, ran %q", r, err, g.Commands())
	}
	if _, err := check(t.Context(), &corev1.Probe{}, &c, g); err == nil {
		t.Error("a probe without a handler was made")
	}
}

func TestMetricsAreThoseOfAKubelet(t *testing.T) {
	var m Metrics
	l := Labels{Container: "app", Pod: "web", Namespace: "ci", UID: "u1"}
	m.add(l, Liveness, true, 30*time.Millisecond)
	m.add(l, Liveness, true, 2*time.Second)
	m.add(l, Liveness, false, time.Second)
	m.add(Labels{Container: "app", Pod: "web", Namespace: "ci", UID: "u0"}, Readiness, false, time.Second)
	got := m.Text()
	for _, want := range []string{
		`prober_probe_total{container="app",namespace="ci",pod="web",pod_uid="u1",probe_type="Liveness",result="successful"} 2` + "\n",
		`prober_probe_total{container="app",namespace="ci",pod="web",pod_uid="u1",probe_type="Liveness",result="failed"} 1` + "\n",
		`prober_probe_total{container="app",namespace="ci",pod="web",pod_uid="u0",probe_type="Readiness",result="failed"} 1` + "\n",
		`prober_probe_duration_seconds_bucket{container="app",namespace="ci",pod="web",probe_type="Liveness",le="0.025"} 0` + "\n",
		`prober_probe_duration_seconds_bucket{container="app",namespace="ci",pod="web",probe_type="Liveness",le="0.05"} 1` + "\n",
		`prober_probe_duration_seconds_bucket{container="app",namespace="ci",pod="web",probe_type="Liveness",le="+Inf"} 2` + "\n",
		`prober_probe_duration_seconds_sum{container="app",namespace="ci",pod="web",probe_type="Liveness"} 2.03` + "\n",
		"# TYPE prober_probe_total counter\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	m.add(Labels{Container: "app", Pod: "web", Namespace: "ci", UID: "u2"}, Liveness, true, 20*time.Second)
	if got, sum := m.Text(), "prober_probe_duration_seconds_count{container=\"app\",namespace=\"ci\",pod=\"web\",probe_type=\"Liveness\"} "; strings.Count(got, sum) != 1 || !strings.Contains(got, sum+"3\n") {
		t.Errorf("two Pods of one name:\n%s", got)
	}
	m.Forget("u1")
	if got := m.Text(); strings.Contains(got, "u1") || !strings.Contains(got, "u0") {
		t.Errorf("after the Pod is gone:\n%s", got)
	}
	var none *Metrics
	none.add(l, Liveness, true, time.Second)
	none.Forget("u1")
}

// A busy Mac takes long to start what connects. That is not the application's time, which
// is no longer for it.
func TestTheTimeoutOfAConnectionBeginsInTheGuest(t *testing.T) {
	service := "slow"
	for name, h := range map[string]corev1.ProbeHandler{
		"http":                      gets(corev1.HTTPGetAction{Port: intstr.FromInt32(8080), Path: "/status/200"}),
		"tcp":                       {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}},
		"grpc":                      {GRPC: &corev1.GRPCAction{Port: 9090}},
		"an http server that hangs": gets(corev1.HTTPGetAction{Port: intstr.FromInt32(8080), Path: "/hang"}),
		"a tcp port that is deaf":   {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(7)}},
		"a grpc port that is deaf":  {GRPC: &corev1.GRPCAction{Port: 7, Service: &service}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &actiontest.Guest{Deaf: 7, Starts: 5 * time.Second}
				web, rpc := &http.Server{Handler: site()}, grpc.NewServer()
				grpc_health_v1.RegisterHealthServer(rpc, health.NewServer())
				go func() { _ = web.Serve(g.Listen("", 8080)) }()
				go func() { _ = rpc.Serve(g.Listen("", 9090)) }()
				synctest.Wait()
				begin := time.Now()
				r, err := made(t, g, h, 1)
				took := time.Since(begin)
				web.Close()
				rpc.Stop()
				if hangs := strings.Contains(name, "that"); err != nil || r.healthy == hangs || hangs && took != 6*time.Second || !hangs && took < 5*time.Second {
					t.Errorf("after %s: %+v, %v", took, r, err)
				}
			})
		})
	}
}

// The values may have references themselves, each many times.
func TestACommandThatGrowsIsNotRun(t *testing.T) {
	g := &actiontest.Guest{Command: func(context.Context, []string) (string, int, error) { return "", 0, nil }}
	c := corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 1<<16)}}}
	for name, command := range map[string][]string{"one word": {strings.Repeat("$(A)", 32)}, "many words": slices.Repeat([]string{"$(A)"}, 32)} {
		r, err := check(t.Context(), &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: command}}}, &c, g)
		if err != nil || r.healthy || !strings.Contains(r.message, "more than 1048576 bytes") || len(g.Commands()) != 0 {
			t.Errorf("%s: healthy %t, %.80q, %v, ran %d commands", name, r.healthy, r.message, err, len(g.Commands()))
		}
	}
}
