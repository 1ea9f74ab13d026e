package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/world"
)

const password = "correct horse"

type secret string

func (s secret) Reveal() string { return string(s) }

// waits are the steps that wait for macOS: for a session, for a password that may
// be sealed, for processes that must stay.
var waits = []string{"session", "launchd", "proof"}

// patient is one simulated Mac behind a slow connection.
type patient struct {
	*mac.Mac
	way   *slow
	key   ssh.Signer
	fleet ed25519.PrivateKey
	pin   remote.Pin
	build *remote.Build
}

func measureOne(ctx context.Context, s settings, row func(what, figure, goal string)) error {
	dir, err := os.MkdirTemp("", "mfbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := admit(ctx, dir, s.rtt/2)
	if err != nil {
		return err
	}
	defer p.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // it is thrown away
	defer p.way.close()                      //nolint:errcheck // the same
	if err := p.fresh(ctx, s, row); err != nil {
		return err
	}
	return p.again(ctx, s, row)
}

func admit(ctx context.Context, dir string, delay time.Duration) (*patient, error) {
	say("building the agent and the simulated Mac")
	agent, err := world.BuildAgent(ctx, "", dir, "v0.0.0-bench")
	if err != nil {
		return nil, err
	}
	p := &patient{}
	if p.build, err = remote.ReadBuild(filepath.Join(agent.Dir, "tart-kubelet")); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", dir, "./sandbox/mac/cmd/macsim", "./sandbox/mac/cmd/macshim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the simulated Mac: %w\n%s", err, text)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if p.key, err = ssh.NewSignerFromKey(private); err != nil {
		return nil, err
	}
	if _, p.fleet, err = ed25519.GenerateKey(rand.Reader); err != nil {
		return nil, err
	}
	address := netip.MustParseAddr("127.77.0.7")
	free, err := net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, err
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		return nil, err
	}
	p.Mac, err = mac.New(mac.Options{
		Programs: dir, Dir: filepath.Join(dir, "mac"), Address: address, SSHPort: port, Password: password,
		AuthorizedKeys: []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(p.key.PublicKey())))},
		Twins:          map[string]string{p.build.SHA256: agent.Twin},
	})
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	p.way, err = newSlow(p.Address().String(), delay)
	return p, err
}

func (p *patient) dial(ctx context.Context) (*remote.Session, error) {
	return remote.Dial(ctx, remote.Target{
		Address: "127.0.0.1", Port: p.way.port(), User: "m1", Key: p.key, Pin: p.pin,
		FirstUse: func(_ context.Context, shown remote.Pin) error { p.pin = shown; return nil },
	})
}

func (p *patient) desired() document.Desired {
	return document.Desired{
		Host: document.Host{
			Name: "ci-bench", ProviderID: "scw-applesilicon://fr-par-1/6ba7b810-9dad-41d1-80b4-00c04fd430c8", Epoch: 1,
			User: "m1", Address: "127.0.0.1", Zone: "fr-par-1", ServerType: "M2-M",
		},
		Agent:   document.Agent{SHA256: p.build.SHA256, Version: "v0.0.0-bench"},
		Node:    document.Node{MaxVMs: 2},
		Mac:     document.Mac{AutoLogin: true, Network: document.Network{Subnet: document.DefaultSubnet, DenyPrivate: true}},
		SSHKeys: []string{strings.TrimSpace(string(ssh.MarshalAuthorizedKey(p.key.PublicKey())))},
		Secrets: &document.Secrets{ConsolePassword: password},

		UpgradeKey: p.fleet.Public().(ed25519.PublicKey),
	}
}

func (p *patient) signer() *document.Signer {
	return document.NewSigner(p.fleet, p.desired().Host, time.Now)
}

// executions counts what sshd has run so far.
func (p *patient) executions() int {
	n := 0
	for _, e := range p.Transcript() {
		if len(e.Argv) > 1 && e.Argv[0] == "/bin/sh" && e.Argv[1] == "-c" {
			n++
		}
	}
	return n
}

// fresh makes the Mac a node for the first time.
func (p *patient) fresh(ctx context.Context, s settings, row func(what, figure, goal string)) error {
	say("converging a fresh Mac")
	began := time.Now()
	session, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer session.Close() //nolint:errcheck // it is done with
	if _, err := session.Probe(ctx); err != nil {
		return err
	}
	if err := session.Grant(ctx, secret(password)); err != nil {
		return err
	}
	if _, err := session.Receive(ctx, p.build); err != nil {
		return err
	}
	report, err := session.Converge(ctx, p.build.SHA256, p.desired(), p.signer())
	if err != nil {
		return err
	}
	took := time.Since(began)
	for _, step := range report.Steps {
		say("  %-12s %-9s %5d ms", step.Name, step.Outcome, step.Millis)
	}
	waited := waitedIn(report)
	what := fmt.Sprintf("fresh Mac, round trip %s: ", s.rtt)
	row(what+"SSH executions", fmt.Sprint(p.executions()), "<= 4")
	row(what+"bytes on the wire", fmt.Sprintf("%.1f MB up, %.2f MB down", float64(p.way.up.Load())/1e6, float64(p.way.down.Load())/1e6), "<= 15 MB")
	row(what+"time", fmt.Sprintf("%.1f s", took.Seconds()), "")
	row(what+"time but for steps "+strings.Join(waits, ", "), fmt.Sprintf("%.1f s", (took-waited).Seconds()), "<= 10 s")
	return nil
}

func waitedIn(r document.Report) time.Duration {
	var all time.Duration
	for _, step := range r.Steps {
		for _, name := range waits {
			if step.Name == name {
				all += time.Duration(step.Millis) * time.Millisecond
			}
		}
	}
	return all
}

// again looks at a Mac that is as it should be.
func (p *patient) again(ctx context.Context, s settings, row func(what, figure, goal string)) error {
	say("looking at it again")
	before, bytes := p.executions(), p.way.up.Load()+p.way.down.Load()
	began := time.Now()
	session, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer session.Close() //nolint:errcheck // it is done with
	d := p.desired()
	d.Secrets = nil
	report, err := session.ConvergeInstalled(ctx, d, p.signer())
	if err != nil {
		return err
	}
	if report.Exit != document.ExitUnchanged {
		return errors.New("a converged Mac was changed")
	}
	what := fmt.Sprintf("converged Mac, round trip %s: ", s.rtt)
	row(what+"SSH executions", fmt.Sprint(p.executions()-before), "1")
	row(what+"bytes on the wire", fmt.Sprintf("%.0f kB", float64(p.way.up.Load()+p.way.down.Load()-bytes)/1e3), "")
	row(what+"time, connection included", fmt.Sprintf("%.2f s", time.Since(began).Seconds()), fmt.Sprintf("%.0f s", (time.Second+10*s.rtt).Seconds()))
	return nil
}
