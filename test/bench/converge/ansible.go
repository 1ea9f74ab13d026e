package main

import (
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

//go:embed ansible
var playbook embed.FS

// player is Ansible, of the system's package.
type player struct {
	program string
	// version is what it says of itself.
	version string
	// dir holds the playbook and all it reads; files is the folder in it of what is copied to Macs.
	dir, files string
}

// errNoAnsible says that this machine has none.
var errNoAnsible = errors.New("ansible-playbook is not installed: apt-get install ansible")

// findAnsible looks for the program, and writes its playbook below dir.
func findAnsible(ctx context.Context, dir string) (*player, error) {
	program, err := exec.LookPath("ansible-playbook")
	if err != nil {
		return nil, errNoAnsible
	}
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("asking Ansible for its version: %w", err)
	}
	version, _, _ := strings.Cut(string(out), "\n")
	a := &player{program: program, version: version, dir: filepath.Join(dir, "ansible"), files: filepath.Join(dir, "ansible", "files")}
	if err := os.CopyFS(dir, playbook); err != nil {
		return nil, fmt.Errorf("writing the playbook: %w", err)
	}
	return a, nil
}

// copied are the files that the playbook copies as they are.
func copied() []string {
	return []string{
		"/var/db/macfleet/upgrade-key.pem", "/var/db/macfleet/journal.json", "/etc/ssh/macfleet_authorized_keys",
		"/etc/ssh/sshd_config.d/000-macfleet.conf", "/etc/kcpassword", "/etc/macfleet/agent.json", "/etc/newsyslog.d/macfleet.conf",
		"/etc/sudoers.d/m1-nopasswd", "/Library/LaunchDaemons/dev.macfleet.hostd.plist", "/Library/LaunchDaemons/dev.macfleet.tart-kubelet.plist",
	}
}

// learn takes from a Mac that converge made what another is to get.
func (a *player) learn(from *patient) error {
	for _, path := range copied() {
		to := filepath.Join(a.files, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		data, err := os.ReadFile(filepath.Join(from.Root(), path))
		if err != nil {
			return fmt.Errorf("reading what converge wrote: %w", err)
		}
		if err := os.WriteFile(to, data, 0o600); err != nil {
			return err
		}
	}
	rules, err := firewall.Rules(firewall.PolicyOf(from.desired().Host, from.desired().Mac, from.desired().Kubelet))
	if err != nil {
		return err
	}
	if err := pack(from.agentFile(), a.packed()); err != nil {
		return err
	}
	vars, err := json.Marshal(map[string]string{
		"build": from.build.SHA256, "files": a.files, "packed": a.packed(), "rules": rules, "mac_name": from.desired().Host.Name,
		"ansible_become_password": password,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.dir, "vars.json"), vars, 0o600)
}

func (a *player) packed() string { return filepath.Join(a.dir, "tart-kubelet.gz") }

// pack compresses a file as the manager does for the wire.
func pack(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	_, err = io.Copy(z, in)
	return errors.Join(err, z.Close(), out.Close())
}

// aim has the playbook played on one Mac. It gets Python first, which Ansible needs there and
// a Mac lacks: that of this machine, in no time.
func (a *player) aim(at *patient) error {
	libraries, err := filepath.Glob("/usr/lib/*-linux-gnu")
	if err != nil {
		return err
	}
	for i := range libraries {
		libraries[i] = wire.UserlandDir + libraries[i]
	}
	python := fmt.Sprintf("#!/bin/sh\nPYTHONHOME=%[1]s/usr LD_LIBRARY_PATH=%[2]s exec %[1]s/usr/bin/python3 \"$@\"\n", wire.UserlandDir, strings.Join(libraries, ":"))
	if err := os.WriteFile(filepath.Join(at.Root(), "usr/bin/python3"), []byte(python), 0o755); err != nil {
		return fmt.Errorf("giving the Mac Python: %w", err)
	}
	line := fmt.Sprintf("mac ansible_host=127.0.0.1 ansible_port=%d ansible_user=m1 ansible_ssh_private_key_file=%s\n", at.way.port(), at.keyFile)
	return os.WriteFile(filepath.Join(a.dir, "inventory"), []byte(line), 0o600)
}

// play runs the playbook.
func (a *player) play(ctx context.Context, flags ...string) error {
	cmd := exec.CommandContext(ctx, a.program, append([]string{"play.yml", "--extra-vars", "@vars.json"}, flags...)...)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "ANSIBLE_HOME="+filepath.Join(a.dir, "home"), "ANSIBLE_LOCAL_TEMP="+filepath.Join(a.dir, "tmp"), "LC_ALL=C.UTF-8")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ansible-playbook %s: %w\n%s", strings.Join(flags, " "), err, out)
	}
	return nil
}

// hangUp ends the connection that Ansible keeps, so that the next play makes one of its own.
func (a *player) hangUp(ctx context.Context) error {
	sockets, err := filepath.Glob(filepath.Join(a.dir, "home", "cp", "*"))
	if err != nil {
		return err
	}
	for _, socket := range sockets {
		cmd := exec.CommandContext(ctx, "ssh", "-o", "ControlPath="+socket, "-O", "exit", "mac")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ending Ansible's connection: %w: %s", err, out)
		}
		if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// make makes a fresh Mac a node, and has Ansible look at it again.
func (a *player) make(ctx context.Context, s settings, at *patient, peers *works) error {
	if err := a.aim(at); err != nil {
		return err
	}
	say("the same by Ansible")
	work, err := at.measure(func() (time.Duration, error) { return 0, a.play(ctx) })
	if err != nil {
		return err
	}
	peers.fresh = append(peers.fresh, work)
	if err := a.awaitSameState(ctx, at); err != nil {
		return err
	}
	for range s.looks {
		if err := a.hangUp(ctx); err != nil {
			return err
		}
		look, err := at.measure(func() (time.Duration, error) { return 0, a.play(ctx, "--check") })
		if err != nil {
			return err
		}
		peers.looks = append(peers.looks, look)
	}
	return a.hangUp(ctx)
}

// unproved is what converge misses on a Mac that it did not make: it has not watched the jobs there,
// which is among the waits that neither has here.
const unproved = "the build was not proved with this configuration"

// awaitSameState waits until converge would change nothing on the Mac: a session takes seconds to come.
func (a *player) awaitSameState(ctx context.Context, p *patient) error {
	ctx, cancel := context.WithTimeout(ctx, sessionComes)
	defer cancel()
	for {
		err := a.sameState(ctx, p)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return err
		}
	}
}

// sessionComes is how long a session on the console may take.
const sessionComes = time.Minute

// sameState fails where converge would change something on the Mac.
func (a *player) sameState(ctx context.Context, p *patient) error {
	session, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer session.Close() //nolint:errcheck // it is done with
	d := p.desired()
	d.Secrets = nil
	report, err := session.Plan(ctx, d)
	if err != nil {
		return fmt.Errorf("asking converge what it would change on the Mac that Ansible made: %w", err)
	}
	var differ []string
	for _, step := range report.Steps {
		if step.Outcome != document.Unchanged && step.Detail != unproved {
			differ = append(differ, fmt.Sprintf("%s %s: %s", step.Name, step.Outcome, step.Detail))
		}
	}
	if len(differ) > 0 {
		return fmt.Errorf("what Ansible made is not what converge makes: %s", strings.Join(differ, "; "))
	}
	return nil
}

// notes say what is compared.
func (a *player) notes() []string {
	return []string{
		"Ansible: a playbook that leaves the Mac as converge does, which converge --plan confirms on each; one connection kept for all, modules sent through it without files (pipelining), the agent packed as the manager packs it, Python on the Mac already.",
		"Neither: the waits for macOS. Ansible's check leaves out the tasks that are commands. The simulated Mac's SSH does not compress, which would save a quarter of what Ansible's modules are: base64 of what is packed already.",
	}
}
