package stage0

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/sandbox/mac"
)

const (
	password = `c0rrect "horse" $(battery)`
	patience = 5 * time.Minute
	// timeScale divides what a simulated Mac takes its time for.
	timeScale = 20
)

// fleetKey signs what the Macs of these tests are told.
var fleetKey = ed25519.NewKeyFromSeed([]byte("the fleet that these tests play!"))

// programs are built once for all tests.
var programs struct {
	// macs is the folder of a simulated Mac's programs.
	macs, twin string
	// builds are two releases of the agent for macOS, and files are where they are.
	builds [2]*remote.Build
	files  [2]string
	// suite is the suite of the driver of tart, and suiteTwin what runs where it is started.
	suite     *remote.Build
	suiteTwin string
	// reach is what guests have in the place of nc, and reachAll behind no firewall.
	reach, reachAll string
}

var lastAddress atomic.Uint32

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stage0")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = errors.Join(os.Chmod(dir, 0o755), buildPrograms(dir))
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func buildPrograms(dir string) error {
	programs.macs = dir
	programs.twin = filepath.Join(dir, "twin")
	programs.suiteTwin = filepath.Join(dir, "suite-twin")
	programs.reach, programs.reachAll = filepath.Join(dir, "guests", "reach"), filepath.Join(dir, "guests", "open", "reach")
	err := errors.Join(
		goBuild(programs.reach, "linux", "", "./test/stage0/reach", ""),
		goBuild(programs.reachAll, "linux", "", "./test/stage0/reach", "-X main.open=yes"),
		goBuild(filepath.Join(dir, "macsim"), "linux", "", "./sandbox/mac/cmd/macsim", "", "-tags", "grpcnotrace"),
		goBuild(filepath.Join(dir, "macshim"), "linux", "", "./sandbox/mac/cmd/macshim", ""),
		goBuild(programs.twin, "linux", "", "./cmd/tart-kubelet", ""),
		goBuild(programs.suiteTwin, "linux", "", "./test/driversuite", "", "-tags", "grpcnotrace"),
		goBuild(filepath.Join(dir, "suite"), "darwin", "arm64", "./test/driversuite", "", "-tags", "grpcnotrace"),
	)
	if err == nil {
		programs.suite, err = packed(filepath.Join(dir, "suite"))
	}
	for i := range programs.builds {
		if err != nil {
			return err
		}
		out := filepath.Join(dir, fmt.Sprintf("darwin-%d", i))
		if err = goBuild(out, "darwin", "arm64", "./cmd/tart-kubelet", fmt.Sprintf("-X main.version=v0.0.%d", i), "-tags", "grpcnotrace"); err == nil {
			programs.files[i] = out
			programs.builds[i], err = packed(out)
		}
	}
	return err
}

// packed is the build as an image has it. The race detector makes our own packing take 20 times as long as gzip's.
func packed(build string) (*remote.Build, error) {
	if text, err := exec.Command("gzip", "-1", "--keep", build).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("packing %s: %w\n%s", build, err, text)
	}
	return remote.ReadBuild(build + remote.PackedSuffix)
}

func goBuild(out, system, architecture, pkg, ldflags string, more ...string) error {
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w " + ldflags, "-o", out}, more...)
	cmd := exec.Command("go", append(args, pkg)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system)
	if architecture != "" {
		cmd.Env = append(cmd.Env, "GOARCH="+architecture)
	}
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, text)
	}
	return nil
}

// bench is a simulated Mac that runs, the fleet's key, and what we know of it.
type bench struct {
	*mac.Mac
	t   *testing.T
	key ssh.Signer
	pin remote.Pin
	// began is how many commands had run when what is looked at began.
	began int
	// mayLack are commands that are asked for although the simulator has none.
	mayLack []string
}

func (b *bench) mayBeLacking(e mac.Execution) bool {
	line := strings.Join(e.Argv, " ")
	return slices.ContainsFunc(b.mayLack, func(command string) bool { return strings.Contains(line, command) })
}

func newBench(t *testing.T, change ...func(*mac.Options)) *bench {
	t.Helper()
	// Most of the time the tests wait for the agent to prove itself.
	t.Parallel()
	return newBenchNow(t, change...)
}

// newBenchNow is newBench for tests that see themselves to what runs at once.
func newBenchNow(t *testing.T, change ...func(*mac.Options)) *bench {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t}
	if b.key, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	pid, n := uint32(os.Getpid()), lastAddress.Add(1)
	address := netip.AddrFrom4([4]byte{127, byte(190 + pid%50), byte(pid >> 6), byte(n)})
	o := mac.Options{
		Programs: programs.macs, Dir: t.TempDir(), Address: address, SSHPort: freePort(t, address),
		Password: password, TimeScale: timeScale, LockAfter: 3,
		AuthorizedKeys: []string{b.authorizedKey()},
		Twins: map[string]string{
			programs.builds[0].SHA256: programs.twin, programs.builds[1].SHA256: programs.twin,
		},
	}
	for _, alter := range change {
		alter(&o)
	}
	if b.Mac, err = mac.New(o); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if u := slices.DeleteFunc(b.Unmodelled(), b.mayBeLacking); len(u) != 0 {
			t.Errorf("unmodelled: %+v", u)
		}
		if err := b.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) authorizedKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(b.key.PublicKey())))
}

func freePort(t *testing.T, address netip.Addr) int {
	t.Helper()
	l, err := net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// dial pins what it sees first, and insists on it from then on.
func (b *bench) dial() (*remote.Session, error) {
	to := remote.Target{
		Address: b.Address().Addr().String(), Port: int(b.Address().Port()), User: "m1", Key: b.key, Pin: b.pin,
		FirstUse: func(_ context.Context, shown remote.Pin) error { b.pin = shown; return nil },
	}
	session, err := remote.Dial(b.t.Context(), to)
	if err == nil {
		b.t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

func (b *bench) session() *remote.Session {
	b.t.Helper()
	session, err := b.dial()
	if err != nil {
		b.t.Fatal(err)
	}
	return session
}

func (b *bench) probe(s *remote.Session) remote.Facts {
	b.t.Helper()
	f, err := s.Probe(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}

// converge expects success and returns the outcomes of the steps.
func (b *bench) converge(s *remote.Session, d document.Desired) map[string]document.Outcome {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	r, err := s.Converge(ctx, d.Agent.SHA256, d, signer(d))
	if err != nil {
		b.t.Fatal(err)
	}
	outcomes := map[string]document.Outcome{}
	for _, step := range r.Steps {
		outcomes[step.Name] = step.Outcome
	}
	return outcomes
}

// prepared is a bench whose Mac has converged to the first build.
func prepared(t *testing.T) (*bench, *remote.Session, document.Desired) {
	t.Helper()
	b := newBench(t)
	s := b.session()
	b.probe(s)
	if err := s.Grant(t.Context(), secret(password)); err != nil {
		t.Fatal(err)
	}
	d := b.desired(programs.builds[0])
	if _, err := s.Receive(t.Context(), programs.builds[0]); err != nil {
		t.Fatal(err)
	}
	b.converge(s, d)
	return b, s, d
}

// signer signs for the Mac that the document is for, as the manager does.
func signer(d document.Desired) *document.Signer {
	return document.NewSigner(fleetKey, d.Host, time.Now)
}

type secret string

func (s secret) Reveal() string { return string(s) }

// authority is a certificate authority that has signed nothing.
func authority(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// desired joins a cluster that nobody answers for: the agent stays and tries.
func (b *bench) desired(build *remote.Build) document.Desired {
	b.t.Helper()
	d := desired(b.t, build)
	d.SSHKeys = []string{b.authorizedKey()}
	return d
}

func desired(t *testing.T, build *remote.Build) document.Desired {
	t.Helper()
	return document.Desired{
		Host: document.Host{
			Name: "ci-abc12", ProviderID: "scw-applesilicon://fr-par-1/6ba7b810-9dad-41d1-80b4-00c04fd430c8", Epoch: 1,
			User: "m1", Address: "127.0.0.1", Zone: "fr-par-1", ServerType: "M2-M", Fleet: "ci",
		},
		Agent: document.Agent{SHA256: build.SHA256, Version: "v0.0.0"},
		Node:  document.Node{MaxVMs: 2},
		Mac:   document.Mac{Network: document.Network{Subnet: document.DefaultSubnet}},

		UpgradeKey: fleetKey.Public().(ed25519.PublicKey),
		Join: &document.Join{
			Server: "https://127.0.0.1:1", CA: authority(t), Token: "abcdef.0123456789abcdef",
			Permit: document.JoinPermit{ID: "p1", NotAfter: time.Now().Add(time.Hour).UTC()},
		},
	}
}

// read is a file of the Mac's disk.
func (b *bench) read(name string) (string, bool) {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.Root(), name))
	if errors.Is(err, os.ErrNotExist) {
		return "", false
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data), true
}
