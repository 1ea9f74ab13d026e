package agent

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/guard"
	"github.com/macfleet/macfleet/internal/converge/document"
)

func writeConfig(t *testing.T, dir string, edit func(*document.AgentConfig)) string {
	t.Helper()
	c := document.AgentConfig{
		Schema: document.ConfigSchema,
		Host:   document.Host{Name: "mac-1", ProviderID: "scw-applesilicon://fr-par-1/0001", User: "m1"},
		Node:   document.Node{MaxVMs: 2, Labels: map[string]string{"team": "ios"}},
	}
	edit(&c)
	data, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "agent.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsLieOverTheFile(t *testing.T) {
	path := writeConfig(t, t.TempDir(), func(*document.AgentConfig) {})
	c, hash, err := loadConfig(options{
		ConfigFile: path, NodeName: "mac-2", ProviderID: "x://y", MaxVMs: 1, NodeLabels: map[string]string{"rack": "7"},
	})
	if err != nil || len(hash) != 64 {
		t.Fatalf("hash %q, err %v", hash, err)
	}
	if c.Host.Name != "mac-2" || c.Host.ProviderID != "x://y" || c.Node.MaxVMs != 1 {
		t.Errorf("config %+v", c)
	}
	if port := c.Kubelet.ListenPort(); port != document.DefaultKubeletPort {
		t.Errorf("kubelet port %d", port)
	}
	off, _, err := loadConfig(options{ConfigFile: path, KubeletPort: ptr.To(0)})
	if err != nil || off.Kubelet.ListenPort() != 0 {
		t.Errorf("the kubelet API cannot be switched off: %+v (%v)", off.Kubelet, err)
	}
	if d := cmp.Diff(map[string]string{"team": "ios", "rack": "7"}, c.Node.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
}

func TestFlagsAlone(t *testing.T) {
	c, _, err := loadConfig(options{ConfigFile: filepath.Join(t.TempDir(), "none"), NodeName: "mac-1", ProviderID: "x://y"})
	if err != nil || c.Node.MaxVMs != 1 {
		t.Errorf("config %+v, err %v", c, err)
	}
}

func TestWrongConfigurationIsOneLineAndExit2(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		edit func(*document.AgentConfig)
		flag options
		want string
	}{
		{"schema", func(c *document.AgentConfig) { c.Schema = "other/v9" }, options{}, "other/v9"},
		{"name", func(c *document.AgentConfig) { c.Host.Name = "Not A Name" }, options{}, "Not A Name"},
		{"no provider ID", func(c *document.AgentConfig) { c.Host.ProviderID = "" }, options{}, "provider ID"},
		{"too many VMs", func(*document.AgentConfig) {}, options{MaxVMs: 3}, "3 VMs"},
		{"negative VMs", func(*document.AgentConfig) {}, options{MaxVMs: -1}, "-1 VMs"},
		{"kubelet port", func(c *document.AgentConfig) { c.Kubelet.Port = ptr.To(65536) }, options{}, "65536"},
		{"kubelet port's flag", func(*document.AgentConfig) {}, options{KubeletPort: ptr.To(-1)}, "-1 is no port"},
		{"a label", func(*document.AgentConfig) {}, options{NodeLabels: map[string]string{"a b": "c"}}, "a b"},
	} {
		c.flag.ConfigFile = writeConfig(t, dir, c.edit)
		_, _, err := loadConfig(c.flag)
		var coded interface{ ExitCode() int }
		if !errors.As(err, &coded) || coded.ExitCode() != 2 || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, _, err := loadConfig(options{ConfigFile: filepath.Join(dir, "none")}); err == nil {
		t.Error("no configuration at all was taken")
	}
}

func TestBuildIsTheSlotsName(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sum := strings.Repeat("0a", 32)
	slot := filepath.Join(dir, sum)
	if err := os.Mkdir(slot, 0o755); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(slot, "tart-kubelet")
	if err := os.WriteFile(binary, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(slot, filepath.Join(dir, "current")); err != nil {
		t.Fatal(err)
	}
	for argv0, want := range map[string]string{
		filepath.Join(dir, "current", "tart-kubelet"): sum,
		binary:                          sum,
		filepath.Join(dir, "elsewhere"): "",
		"tart-kubelet":                  "",
	} {
		if got := Build(argv0); got != want {
			t.Errorf("%s: %q, want %q", argv0, got, want)
		}
	}
}

func TestHealthSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "tk")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "health.sock")
	want := document.Health{Build: "b", ConfigHash: "c", PID: 7}
	for range 2 { // the second finds the socket of the first
		l, err := listenHealth(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			serveHealth(ctx, l, want, slog.Default())
		}()
		for range 3 {
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
			if err != nil {
				t.Fatal(err)
			}
			var got document.Health
			if err := json.NewDecoder(c).Decode(&got); err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		}
		cancel()
		<-ended
	}
}

// crowded is a listener that cannot take its first connections.
type crowded struct {
	net.Listener
	errs []error
}

func (c *crowded) Accept() (net.Conn, error) {
	if len(c.errs) > 0 {
		err := c.errs[0]
		c.errs = c.errs[1:]
		return nil, err
	}
	return c.Listener.Accept()
}

// A process that has too many files open for a moment answers after it.
func TestTheHealthSocketOutlivesFailedConnections(t *testing.T) {
	dir, err := os.MkdirTemp("", "tk") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "health.sock")
	l, err := listenHealth(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		serveHealth(ctx, &crowded{l, []error{syscall.EMFILE, syscall.ECONNABORTED}}, document.Health{PID: 7}, slog.New(slog.DiscardHandler))
	}()
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1)
	go func() {
		var h document.Health
		_ = json.NewDecoder(c).Decode(&h)
		got <- h.PID
	}()
	select {
	case pid := <-got:
		if pid != 7 {
			t.Errorf("PID %d", pid)
		}
	case <-ended:
		t.Error("it gave the socket up")
	}
	_ = c.Close()
	cancel()
	<-ended
}

func TestTogetherEndsWithTheFirst(t *testing.T) {
	failure := errors.New("broken")
	err := together(t.Context(),
		func(ctx context.Context) error { <-ctx.Done(); return nil },
		func(context.Context) error { return failure })
	if !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
}

func TestWhoProvesTheFirewall(t *testing.T) {
	none, other := "", "/tmp/other.sock"
	for _, c := range []struct {
		name   string
		flag   *string
		subnet string
		want   string
	}{
		{"a guests' network", nil, document.DefaultSubnet, document.HostdSocket},
		{"no guests' network", nil, "", ""},
		{"told to do without", &none, document.DefaultSubnet, ""},
		{"told where", &other, "", other},
	} {
		a := agent{o: options{HostdSocket: c.flag}, log: slog.New(slog.DiscardHandler)}
		a.config.Mac.Network.Subnet = c.subnet
		got := ""
		if gate, ok := a.guard().(guard.Gate); ok {
			got = gate.Socket
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The first system's plist carries --provider-id, and people may: it is over the
// configuration's, and is what TestNodeIsMadeOnceAndComplete makes the Node of.
func TestRequirement004_ProviderIDFlagWins(t *testing.T) {
	const id = "scw-applesilicon://fr-par-1/11111111-1111-4111-8111-111111111111"
	path := writeConfig(t, t.TempDir(), func(*document.AgentConfig) {})
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"the flag":     {[]string{"--provider-id=" + id}, id},
		"without it":   {nil, "scw-applesilicon://fr-par-1/0001"},
		"an empty one": {[]string{"--provider-id="}, "scw-applesilicon://fr-par-1/0001"},
	} {
		t.Run(name, func(t *testing.T) {
			var o options
			flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
			runFlags(flags, &o, new(string))
			if err := flags.Parse(append(c.args, "--config="+path)); err != nil {
				t.Fatal(err)
			}
			config, _, err := loadConfig(o)
			if err != nil || config.Host.ProviderID != c.want {
				t.Errorf("providerID = %q, %v; want %q", config.Host.ProviderID, err, c.want)
			}
		})
	}
}
