package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// credentials are complete and well-formed.
func credentials(vendor string) map[string]string {
	return map[string]string{
		"SCW_ACCESS_KEY": scaleway.DefaultAccessKey, "SCW_SECRET_KEY": scaleway.DefaultSecretKey,
		"SCW_DEFAULT_PROJECT_ID": scaleway.DefaultProjectID, "SCW_API_URL": vendor, "PATH": os.Getenv("PATH"), "HOME": os.Getenv("HOME"),
	}
}

func TestManagerRefusesBadInput(t *testing.T) {
	vendor := scaleway.New(scaleway.Options{})
	defer vendor.Close()
	server := httptest.NewServer(vendor)
	defer server.Close()
	nowhere := httptest.NewServer(http.NotFoundHandler())
	nowhere.Close()
	kubeconfig := writeKubeconfig(t)

	for name, c := range map[string]struct {
		change map[string]string
		args   []string
		words  []string
	}{
		"no access key":       {change: map[string]string{"SCW_ACCESS_KEY": ""}, words: []string{"SCW_ACCESS_KEY"}},
		"no secret key":       {change: map[string]string{"SCW_SECRET_KEY": ""}, words: []string{"SCW_SECRET_KEY"}},
		"no project":          {change: map[string]string{"SCW_DEFAULT_PROJECT_ID": ""}, words: []string{"SCW_DEFAULT_PROJECT_ID"}},
		"malformed secret":    {change: map[string]string{"SCW_SECRET_KEY": "hunter2"}, words: []string{"SCW_SECRET_KEY"}},
		"wrong key":           {change: map[string]string{"SCW_SECRET_KEY": "11111111-1111-4111-8111-111111111111"}, words: []string{"credentials"}},
		"unknown flag":        {args: []string{"--nonsense"}, words: []string{"nonsense"}},
		"zone of no shape":    {args: []string{"--orphan-reclaim-zones=Paris"}, words: []string{"Paris"}},
		"unknown zone":        {args: []string{"--orphan-reclaim-zones=xx-abc-9"}, words: []string{"xx-abc-9"}},
		"empty prefix":        {args: []string{"--default-adopt-pool-prefix="}, words: []string{"prefix", "empty"}},
		"too wide a prefix":   {args: []string{"--default-adopt-pool-prefix=t-"}, words: []string{"prefix", "t-", "wide"}},
		"prefix without dash": {args: []string{"--default-adopt-pool-prefix=tuist"}, words: []string{"prefix", "tuist"}},
		"no agent":            {args: []string{"--agent-dir=/nowhere/at/all"}, words: []string{"/nowhere/at/all"}},
		"no kubeconfig":       {args: []string{"--kubeconfig=/nowhere/kubeconfig"}, words: []string{"kubeconfig"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := credentials(server.URL)
			for key, value := range c.change {
				env[key] = value
			}
			args := append([]string{
				"--kubeconfig=" + kubeconfig, "--agent-dir=" + programs.AgentDir, "--default-adopt-pool-prefix=tuist-pool-",
				"--orphan-reclaim-zones=fr-par-1", "--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=127.0.0.1:0",
			}, c.args...)
			r := runProgram(t, pairs(env), programs.Manager, args...)
			checkOneLine(t, r, 2, c.words...)
			if strings.Contains(r.stderr, env["SCW_SECRET_KEY"]) && env["SCW_SECRET_KEY"] != "" {
				t.Errorf("the secret key is in %q", r.stderr)
			}
		})
	}
}

func pairs(env map[string]string) []string {
	var list []string
	for key, value := range env {
		if value != "" {
			list = append(list, key+"="+value)
		}
	}
	return list
}

// writeKubeconfig names an API server that nobody runs: no case gets that far.
func writeKubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"x","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"x","context":{"cluster":"x"}}],"current-context":"x"}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
