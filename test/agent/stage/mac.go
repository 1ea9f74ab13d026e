package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/sandbox/mac/tart"
)

// commands play the macOS below the agent. What changes is in files of HOME.
var commands = map[string]string{
	"sysctl":  `printf '8\n17179869184\n'; cat "$HOME/boot-session"`,
	"sw_vers": `printf 'ProductName:\t\tmacOS\nProductVersion:\t\t26.0\nBuildVersion:\t\t25A354\n'`,
	"ioreg":   `echo '"IOPlatformUUID" = "0A1B2C3D-0000-1111-2222-333344445555"'`,
	"df":      `printf 'Filesystem 1024-blocks Used Available Capacity Mounted on\n/dev/disk3s5 239362496 99362496 %s 42%% /\n' "$(cat "$HOME/free")"`,
}

// Mac is one Mac with its agent.
type Mac struct {
	Name string
	// Dir holds everything of this Mac.
	Dir string
	// Link is its way to the API server.
	Link *Link
	// Log is what its agents have said.
	Log *Log
	// Config of the agent, written at each start.
	Config document.AgentConfig
	// ExtraArgs and ExtraEnv of the agent.
	ExtraArgs, ExtraEnv []string

	plane *Plane
	mu    sync.Mutex
	agent *exec.Cmd
	boots int
	// small: its state is on a small file system of its own.
	small bool
}

// macPrefix begins the names of the Macs' folders, below os.TempDir.
const macPrefix = "mac-"

// NewMac prepares a Mac; StartAgent makes it join. Its name is the Node's.
func (p *Plane) NewMac(ctx context.Context, name string) (*Mac, error) {
	dir, err := os.MkdirTemp("", macPrefix) // short: sockets live in it
	if err != nil {
		return nil, fmt.Errorf("making a Mac's folder: %w", err)
	}
	server, err := url.Parse(p.cluster.Server())
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	link, err := newLink(ctx, server.Host)
	if err != nil {
		return nil, err
	}
	m := &Mac{Name: name, Dir: dir, Link: link, Log: &Log{}, plane: p, Config: document.AgentConfig{
		Schema: document.ConfigSchema,
		Host: document.Host{
			Name: name, ProviderID: "scw-applesilicon://fr-par-1/" + name, Epoch: 1, User: "m1",
			Address: "127.9.8.7", Zone: "fr-par-1", ServerType: "M2-M", Fleet: "ci",
		},
		Node: document.Node{MaxVMs: 2},
		Mac:  document.Mac{Network: document.Network{Subnet: document.DefaultSubnet}},
		Pods: document.Pods{HostPaths: []string{filepath.Join(dir, "hostpath")}},
	}}
	return m, errors.Join(m.furnish(), m.deliver())
}

// Path of something of this Mac.
func (m *Mac) Path(parts ...string) string {
	return filepath.Join(append([]string{m.Dir}, parts...)...)
}

// Machines is where tart keeps the machines of this Mac.
func (m *Mac) Machines() string { return m.Path("tart", "vms") }

func (m *Mac) furnish() error {
	var errs []error
	for _, d := range []string{"bin", "state", "fake", "hostpath"} {
		errs = append(errs, os.Mkdir(m.Path(d), 0o755))
	}
	for name, script := range commands {
		errs = append(errs, os.WriteFile(m.Path("bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	// Links and no copies, by a path of this Mac's own: that tells its processes.
	for _, name := range []string{"tart-kubelet", "tart"} {
		errs = append(errs, link(m.plane.bin(name), m.Path("bin", name)))
	}
	m.nextBoot()
	return errors.Join(append(errs, m.SetFree(140<<20))...)
}

// link falls back to a copy where the folders are on different file systems.
func link(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// SetFree is what df tells of the disk, in KiB; the whole of it has 239362496.
func (m *Mac) SetFree(kibibytes int64) error {
	return os.WriteFile(m.Path("free"), fmt.Appendf(nil, "%d", kibibytes), 0o600)
}

func (m *Mac) nextBoot() {
	m.boots++
	_ = os.WriteFile(m.Path("boot-session"), fmt.Appendf(nil, "%s-BOOT-%d\n", m.Name, m.boots), 0o600)
}

// SetPlan gives the simulated tart its times and faults.
func (m *Mac) SetPlan(p tart.Plan) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding a plan: %w", err)
	}
	return m.replace("plan.json", text)
}

// replace is one rename: readers see the old file or the new one.
func (m *Mac) replace(name string, text []byte) error {
	if err := os.WriteFile(m.Path(name+".new"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(m.Path(name+".new"), m.Path(name))
}

// deliver brings a token and a permit, as converge does.
func (m *Mac) deliver() error {
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {
			Server: "https://" + m.Link.Address(), CertificateAuthorityData: m.plane.cluster.CA(),
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: tokenID + "." + tokenSecret}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "c",
	}
	if err := clientcmd.WriteToFile(config, m.Path("bootstrap-kubeconfig")); err != nil {
		return fmt.Errorf("writing the kubeconfig to join with: %w", err)
	}
	return m.Permit("permit-1")
}

// Permit lets the Mac create its Node once.
func (m *Mac) Permit(id string) error {
	text, err := json.Marshal(document.JoinPermit{ID: id, NotAfter: time.Now().Add(12 * time.Hour)})
	if err != nil {
		return fmt.Errorf("encoding a permit: %w", err)
	}
	return m.replace("join-permit.json", text)
}

// StartAgent starts the agent, which must not run.
func (m *Mac) StartAgent() error {
	config, err := json.Marshal(m.Config)
	if err != nil {
		return fmt.Errorf("encoding the agent's configuration: %w", err)
	}
	if err := m.replace("agent.json", config); err != nil {
		return err
	}
	args := append([]string{
		"run", "--config", m.Path("agent.json"), "--state-dir", m.Path("state"),
		"--bootstrap-kubeconfig", m.Path("bootstrap-kubeconfig"), "--join-permit", m.Path("join-permit.json"),
		"--tart", m.Path("bin/tart"), "--tart-home", m.Path("tart"), "--hostd-socket=",
	}, m.ExtraArgs...)
	cmd := exec.Command(m.Path("bin", "tart-kubelet"), args...) // it outlives who starts it, and is signalled
	cmd.Env = append(m.Environ(), m.ExtraEnv...)
	cmd.Stdout, cmd.Stderr = m.Log, m.Log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agent != nil {
		return errors.New("an agent runs already")
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the agent: %w", err)
	}
	m.agent = cmd
	return nil
}

// Environ of what runs on this Mac.
func (m *Mac) Environ() []string {
	return []string{
		"HOME=" + m.Dir, "PATH=" + m.Path("bin") + ":/usr/bin:/bin:/usr/sbin:/sbin",
		"TART_FAKE_STATE=" + m.Path("fake"), "TART_FAKE_FAULTS=" + m.Path("plan.json"), "TART_FAKE_LEASES=" + m.Path("leases"),
		"TART_FAKE_JOURNAL=" + m.journal(),
	}
}

// EndAgent ends the agent with a signal to its whole group, as launchd may, and
// waits for its end. It is no error when none runs.
func (m *Mac) EndAgent(sig syscall.Signal) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agent == nil {
		return nil
	}
	err := syscall.Kill(-m.agent.Process.Pid, sig)
	_ = m.agent.Wait()
	m.agent = nil
	if errors.Is(err, syscall.ESRCH) {
		return nil // it has ended by itself; its log says why
	}
	return err
}

// AgentPID is 0 when none was started.
func (m *Mac) AgentPID() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agent == nil {
		return 0
	}
	return m.agent.Process.Pid
}

// PowerOff ends everything on the Mac at once; what only memory holds is gone, and
// the next start is another boot.
func (m *Mac) PowerOff() error {
	err := m.EndAgent(syscall.SIGKILL)
	m.killAll()
	m.nextBoot()
	return errors.Join(err, os.RemoveAll(m.Path("fake")), os.Mkdir(m.Path("fake"), 0o755))
}

// Close ends everything of the Mac and removes its folder.
func (m *Mac) Close() error {
	err := m.EndAgent(syscall.SIGKILL)
	m.killAll()
	m.Link.close()
	return errors.Join(err, m.unmount(), os.RemoveAll(m.Dir))
}

// killAll goes on until nothing is left: what is killed may just have started more.
func (m *Mac) killAll() {
	for range 50 {
		left := m.Processes()
		if len(left) == 0 {
			return
		}
		for _, p := range left {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
