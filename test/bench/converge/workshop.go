package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/remote"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/world"
)

// password of every Mac.
const password = "correct horse"

// workshop has what Macs are made of, built once.
type workshop struct {
	dir   string
	agent world.Agent
	build *remote.Build
	// key opens Macs; it is in keyFile, too, for other programs.
	key     ssh.Signer
	keyFile string
	// fleet signs what Macs are told.
	fleet ed25519.PrivateKey
	made  int
}

func openWorkshop(ctx context.Context, dir string) (*workshop, error) {
	say("building the agent and the simulated Mac")
	w := &workshop{dir: dir, keyFile: filepath.Join(dir, "key")}
	if err := w.buildPrograms(ctx); err != nil {
		return nil, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	if w.key, err = ssh.NewSignerFromKey(private); err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(w.keyFile, pem.EncodeToMemory(block), 0o600); err != nil {
		return nil, err
	}
	_, w.fleet, err = ed25519.GenerateKey(rand.Reader)
	return w, err
}

func (w *workshop) buildPrograms(ctx context.Context) (err error) {
	if w.agent, err = world.BuildAgent(ctx, "", w.dir, "v0.0.0-bench"); err != nil {
		return err
	}
	if w.build, err = remote.ReadBuild(w.agentFile()); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", w.dir, "./sandbox/mac/cmd/macsim", "./sandbox/mac/cmd/macshim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the simulated Mac: %w\n%s", err, text)
	}
	return os.Chmod(w.dir, 0o755)
}

// agentFile is the build that Macs are given.
func (w *workshop) agentFile() string { return filepath.Join(w.agent.Dir, "tart-kubelet") }

// authorized is the line that lets the workshop's key in.
func (w *workshop) authorized() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(w.key.PublicKey())))
}

// patient is one simulated Mac behind a slow connection.
type patient struct {
	*mac.Mac
	*workshop
	way *slow
	pin remote.Pin
}

// admit starts a fresh Mac.
func (w *workshop) admit(ctx context.Context, s settings) (*patient, error) {
	w.made++
	address := netip.AddrFrom4([4]byte{127, 77, 0, byte(6 + w.made)})
	free, err := net.Listen("tcp", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, err
	}
	port := free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		return nil, err
	}
	p := &patient{workshop: w}
	p.Mac, err = mac.New(mac.Options{
		Programs: w.dir, Dir: filepath.Join(w.dir, fmt.Sprint("mac", w.made)), Address: address, SSHPort: port, Password: password,
		AuthorizedKeys: []string{w.authorized()},
		Twins:          map[string]string{w.build.SHA256: w.agent.Twin},
	})
	if err != nil {
		return nil, err
	}
	if err := p.Start(ctx); err != nil {
		return nil, err
	}
	p.way, err = newSlow(p.Address().String(), s.rtt/2)
	return p, err
}

// discharge throws the Mac away.
func (p *patient) discharge(ctx context.Context) {
	_ = p.way.close()
	_ = p.Stop(context.WithoutCancel(ctx))
}

// traffic is what one piece of work on a Mac took.
type traffic struct {
	// executions are what sshd has run.
	executions int
	up, down   int64
}

// traffic is what the Mac has seen so far.
func (p *patient) traffic() traffic {
	t := traffic{up: p.way.up.Load(), down: p.way.down.Load()}
	for _, e := range p.Transcript() {
		if len(e.Argv) > 1 && e.Argv[0] == "/bin/sh" && e.Argv[1] == "-c" {
			t.executions++
		}
	}
	return t
}

func (t traffic) since(before traffic) traffic {
	return traffic{executions: t.executions - before.executions, up: t.up - before.up, down: t.down - before.down}
}
