package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/macfleet/macfleet/internal/push"
)

const secretKey = "11111111-1111-4111-8111-111111111111"

// environment is one that a manager could start with.
func environment() map[string]string {
	return map[string]string{
		"SCW_ACCESS_KEY": "SCWXXXXXXXXXXXXXXXXX", "SCW_SECRET_KEY": secretKey,
		"SCW_DEFAULT_PROJECT_ID": "22222222-2222-4222-8222-222222222222", "SCW_API_URL": "http://127.0.0.1:1",
	}
}

func start(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), args, func(name string) string { return env[name] }, &out, &err)
	return code, out.String(), err.String()
}

func TestWrongSettingsAreOneLine(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		says string
	}{
		"unknown flag":        {args: []string{"--bogus"}, says: "-bogus"},
		"bad number":          {args: []string{"--ssh-port=x"}, says: "ssh-port"},
		"zero":                {args: []string{"--machine-concurrency=0"}, says: "--machine-concurrency must be greater than 0"},
		"port":                {args: []string{"--ssh-port=70000"}, says: "--ssh-port"},
		"argument":            {args: []string{"serve"}, says: `"serve"`},
		"zone":                {args: []string{"--orphan-reclaim-zones=fr-par-1,Paris"}, says: `"Paris" is no zone`},
		"wide prefix":         {args: []string{"--default-adopt-pool-prefix=t-"}, says: "too wide"},
		"prefix without dash": {args: []string{"--default-adopt-pool-prefix=pool"}, says: "must end in '-'"},
		"no interval":         {args: []string{"--orphan-reclaim-interval=0s"}, says: "--orphan-reclaim-interval must be greater than 0"},
		"no time for a wipe":  {args: []string{"--reinstall-timeout=-1m"}, says: "--reinstall-timeout must be greater than 0"},
		"checks all the time": {args: []string{"--drift-check-interval=1ms"}, says: "--drift-check-interval must be 0, for never, or at least 1s"},
		"bad duration":        {args: []string{"--reinstall-timeout=45"}, says: "reinstall-timeout"},
		"negative reboot":     {args: []string{"--bootstrap-reboot-after=-1"}, says: "--bootstrap-reboot-after"},
		"negative attempts":   {args: []string{"--bootstrap-max-attempts=-1"}, says: "--bootstrap-max-attempts"},
		"pool of nobody":      {args: []string{"--pool-prefixes=gpu-pool-"}, says: "write namespace=prefix"},
		"pool without dash":   {args: []string{"--pool-prefixes=team-a=gpu"}, says: "must end in '-'"},
		"pool like claims":    {args: []string{"--pool-prefixes=team-a=tuist-gpu-", "--orphan-reclaim-claim-name-prefix=tuist-"}, says: "taken for one another"},
		"short claim prefix":  {args: []string{"--orphan-reclaim-claim-name-prefix=t-"}, says: "at least 3"},
		"claim prefix":        {args: []string{"--orphan-reclaim-claim-name-prefix=Tuist-"}, says: `"Tuist-" must be`},
		"open name prefix":    {args: []string{"--claim-name-prefix=tuist"}, says: "--claim-name-prefix: \"tuist\" must be"},
		"negative time":       {args: []string{"--bootstrap-recover-after=-1s"}, says: "--bootstrap-recover-after"},
		"open claim prefix":   {args: []string{"--orphan-reclaim-claim-name-prefix=tuist"}, says: "end in '-'"},
		"claims in the pool":  {args: []string{"--default-adopt-pool-prefix=tuist-", "--orphan-reclaim-claim-name-prefix=tuist-tuist-"}, says: "would count as the pool's"},
		"pool among claims":   {args: []string{"--default-adopt-pool-prefix=tuist-pool-", "--orphan-reclaim-claim-name-prefix=tuist-"}, says: "would count as claimed"},
		"pool is claims":      {args: []string{"--default-adopt-pool-prefix=tuist-", "--orphan-reclaim-claim-name-prefix=tuist-"}, says: "would count as claimed"},
		"plain API server":    {args: []string{"--api-server-url=http://x"}, says: "https://"},
		"Service":             {args: []string{"--api-server-url=https://kubernetes.default.svc"}, says: "a Mac cannot reach"},
		"log format":          {args: []string{"--log-format=xml"}, says: "json or text"},
		"CRDs of no verb":     {args: []string{"crds"}, says: "manager crds apply [--kubeconfig=<file>]"},
		"CRDs deleted":        {args: []string{"crds", "delete"}, says: "manager crds apply [--kubeconfig=<file>]"},
		"CRDs of a flag":      {args: []string{"crds", "apply", "--force"}, says: "-force"},
		"CRDs of an argument": {args: []string{"crds", "apply", "hosts"}, says: `unexpected argument "hosts"`},
		"CRDs of nowhere":     {args: []string{"crds", "apply", "--kubeconfig=/nonexistent"}, says: "no Kubernetes API server is known"},
		"uninstall of what":   {args: []string{"uninstall"}, says: "manager uninstall check [--kubeconfig=<file>]"},
		"no certificate":      {args: []string{"--metrics-cert-dir=/nonexistent"}, says: "--metrics-cert-dir: tls.crt and tls.key must be in /nonexistent"},
		"TLS and none":        {args: []string{"--metrics-cert-dir=/nonexistent", "--insecure-metrics"}, says: "give one of the two"},
		"profiles for all":    {args: []string{"--profiling", "--insecure-metrics"}, says: "asks nobody for a token"},
		"spans to nowhere":    {args: []string{"--tracing-endpoint=collector:4317"}, says: "such as http://collector:4317"},
		"no access key":       {env: map[string]string{"SCW_ACCESS_KEY": ""}, says: "SCW_ACCESS_KEY is not set"},
		"no secret key":       {env: map[string]string{"SCW_SECRET_KEY": ""}, says: "SCW_SECRET_KEY is not set"},
		"no project":          {env: map[string]string{"SCW_DEFAULT_PROJECT_ID": ""}, says: "SCW_DEFAULT_PROJECT_ID is not set"},
		"malformed key":       {env: map[string]string{"SCW_SECRET_KEY": "hunter2"}, says: "SCW_SECRET_KEY is malformed"},
		"API in clear text":   {env: map[string]string{"SCW_API_URL": "http://example.com"}, says: "SCW_API_URL"},
		"no directory":        {args: []string{"--vendor-credentials=/nonexistent"}, says: "--vendor-credentials: reading the vendor's credentials"},
		"no agent":            {args: []string{"--agent-dir=/nonexistent"}, says: "--agent-dir: the agent for Macs"},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment()
			for key, value := range c.env {
				env[key] = value
			}
			code, _, stderr := start(t, env, c.args...)
			if code != exitUsage || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit %d, stderr %q; want %d and one line that says %q", code, stderr, exitUsage, c.says)
			}
			if strings.Contains(stderr, secretKey) || strings.Contains(stderr, "hunter2") {
				t.Error("the secret key is shown")
			}
		})
	}
}

// Who says nothing has one manager at work, and shows metrics and profiles to nobody else.
func TestNothingIsOpenThatNobodyAskedFor(t *testing.T) {
	env := environment()
	s, err := parse(nil, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if !s.leaderElect || s.insecureMetrics || s.profiling || s.tracingEndpoint != "" || !s.trustUnseen {
		t.Errorf("leader election %t, metrics for all %t, profiles %t, spans to %q, trusts unseen servers %t", s.leaderElect, s.insecureMetrics, s.profiling, s.tracingEndpoint, s.trustUnseen)
	}
}

func TestRecoveryAndReclaimSettings(t *testing.T) {
	type values struct {
		ReclaimInterval, ReinstallTimeout time.Duration
		ClaimNamePrefix                   string
		RebootAfter, MaxAttempts          int
		RecoverAfter                      time.Duration
	}
	for name, c := range map[string]struct {
		args []string
		want values
	}{
		"defaults": {nil, values{15 * time.Minute, 45 * time.Minute, "", 3, 8, 5 * time.Minute}},
		"off":      {[]string{"--bootstrap-reboot-after=0", "--bootstrap-max-attempts=0", "--bootstrap-recover-after=0"}, values{15 * time.Minute, 45 * time.Minute, "", 0, 0, 0}},
		"given": {
			[]string{
				"--orphan-reclaim-interval=1m", "--reinstall-timeout=1h", "--bootstrap-reboot-after=1", "--bootstrap-max-attempts=2", "--bootstrap-recover-after=10m",
				"--default-adopt-pool-prefix=tuist-pool-", "--orphan-reclaim-claim-name-prefix=tuist-tuist-",
			},
			values{time.Minute, time.Hour, "tuist-tuist-", 1, 2, 10 * time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			env := environment()
			s, err := parse(c.args, func(name string) string { return env[name] })
			if err != nil {
				t.Fatal(err)
			}
			got := values{s.reclaimInterval, s.reinstallTimeout, s.claimNamePrefix, s.rebootAfter, s.maxAttempts, s.recoverAfter}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	if code, stdout, _ := start(t, nil, "--help"); code != 0 || !strings.Contains(stdout, "-default-adopt-pool-prefix") {
		t.Errorf("exit %d, %q", code, stdout)
	}
	if code, stdout, _ := start(t, nil, "--version"); code != 0 || strings.TrimSpace(stdout) != version {
		t.Errorf("exit %d, %q", code, stdout)
	}
}

// secretDir is a mounted Secret.
func secretDir(t *testing.T, values map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, value := range values {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCredentialsFromADirectory(t *testing.T) {
	env := environment()
	env["SCW_API_URL"] = vendor(t, http.StatusUnauthorized, `{"message":"authentication is denied","method":"api_key","reason":"not_found","type":"denied_authentication"}`)
	if code, _, stderr := start(t, nil, "--agent-dir="+agentDir(t), "--vendor-credentials="+secretDir(t, env)); code != exitUsage || !strings.Contains(stderr, "the vendor rejects the credentials") {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
	delete(env, "SCW_SECRET_KEY")
	// What the directory lacks is not taken from the environment.
	if code, _, stderr := start(t, environment(), "--vendor-credentials="+secretDir(t, env)); code != exitUsage || !strings.Contains(stderr, "SCW_SECRET_KEY is not set") {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

func agentDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, push.AgentFile), []byte("agent"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// vendor answers every request alike.
func vendor(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestRejectedCredentials(t *testing.T) {
	env := environment()
	env["SCW_API_URL"] = vendor(t, http.StatusUnauthorized, `{"message":"authentication is denied","method":"api_key","reason":"not_found","type":"denied_authentication"}`)
	code, _, stderr := start(t, env, "--agent-dir="+agentDir(t))
	if code != exitUsage || !strings.Contains(stderr, "the vendor rejects the credentials") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}

// A vendor that does not answer is waited for; what ends this start is that no
// API server is known.
func TestASilentVendorIsWaitedFor(t *testing.T) {
	env := environment()
	env["SCW_API_URL"] = vendor(t, http.StatusServiceUnavailable, `{"message":"try later","type":"transient_state"}`)
	code, _, stderr := start(t, env, "--agent-dir="+agentDir(t), "--kubeconfig=/nonexistent")
	if code != exitUsage || !strings.Contains(stderr, "no Kubernetes API server is known") || strings.Contains(stderr, "rejects") {
		t.Errorf("exit %d, stderr %q", code, stderr)
	}
}
