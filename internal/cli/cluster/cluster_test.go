package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: a, context: {cluster: c, user: u, namespace: here}}, {name: b, context: {cluster: c, user: u}}]
current-context: a
`

func parse(t *testing.T, args ...string) *Flags {
	t.Helper()
	var flags Flags
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.AddTo(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &flags
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A name with its namespace is read as that name with -n, so that lists are as short, and take
// no more rights.
func TestNamesWithTheirNamespace(t *testing.T) {
	for _, c := range []struct{ args, name, want, chosen string }{
		{"", "m", "m", ""},
		{"-n ns", "m", "m", "ns"},
		{"", "ns/m", "m", "ns"},
		{"-n ns", "ns/m", "m", "ns"},
		{"-n other", "ns/m", "ns/m", "other"},
		{"", "kind.group/m", "kind.group/m", ""},
	} {
		flags := parse(t, strings.Fields(c.args)...)
		if got := flags.NameOf(c.name); got != c.want || flags.Chosen() != c.chosen {
			t.Errorf("%q %s: %q in %q, want %q in %q", c.args, c.name, got, flags.Chosen(), c.want, c.chosen)
		}
	}
}

func TestFlagsAreKubectls(t *testing.T) {
	path := written(t, kubeconfig)
	for _, c := range []struct {
		args      string
		namespace string
		timeout   string
		as        string
	}{
		{"", "here", "0s", ""},
		{"--context b", "default", "0s", ""},
		{"-n there --request-timeout 3s", "there", "3s", ""},
		{"--namespace there --as jane", "there", "0s", "jane"},
	} {
		flags := parse(t, append(strings.Fields(c.args), "--kubeconfig", path)...)
		config, err := flags.Config()
		if err != nil {
			t.Fatal(err)
		}
		namespace, err := flags.Namespace()
		if err != nil || namespace != c.namespace || config.Timeout.String() != c.timeout || config.Impersonate.UserName != c.as {
			t.Errorf("%q: namespace %q, timeout %s, as %q, %v", c.args, namespace, config.Timeout, config.Impersonate.UserName, err)
		}
	}
}

func TestOneLineSaysWhichKubeconfigIsMissing(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, c := range []struct{ path, says string }{
		{"", "To try macfleet without a cluster: macfleet sandbox up"},
		{"/nowhere/kubeconfig", "there is no kubeconfig /nowhere/kubeconfig"},
		{written(t, ""), "names no cluster"},
		{written(t, "{"), "reading the kubeconfig"},
	} {
		_, err := parse(t, "--kubeconfig", c.path).Config()
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q says %v, want %q", c.path, err, c.says)
		}
	}
	_, err := parse(t, "--kubeconfig", written(t, kubeconfig), "--context", "c").Config()
	if err == nil || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("an unknown context: %v", err)
	}
}
