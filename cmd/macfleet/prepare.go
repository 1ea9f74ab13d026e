package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/internal/remote"
)

// Exit codes of prepare beside those of all commands. Scripts go by them.
const (
	exitUnreachable    = 3
	exitHostKey        = 4
	exitKeyRefused     = 5
	exitUnfit          = 6
	exitPassword       = 7
	exitSession        = 8
	settleAfterSession = 10 * time.Second // macOS seals a wrong password within it
)

const prepareLong = `Prepares a Mac for a fleet by hand: lets its user become root without a password, and
gives it a console session that comes back after every boot, which guests need. A fleet
does the same by itself, as long as the vendor tells it the password; this is for the Macs
whose password only you have.

It logs in with a key and nothing else. It shows the Mac's host key and goes on only when
you say that it is the right one. The password is asked for once, without echo, only when
it is needed, is sent once, and is kept in no file of this machine. On the Mac it leaves
the sudo rule, the automatic login and the uploaded agent, and no mark of a fleet.

Exit codes: 0 prepared, 1 failed, 2 nothing was tried since the command line or an answer
cannot be used, 3 no connection, 4 the host key was not accepted, 5 the key is refused,
6 the machine cannot be used, 7 the password was not taken, 8 no console session, 130
interrupted.`

// fingerprintShape is a SHA-256 as OpenSSH prints it.
var fingerprintShape = regexp.MustCompile(`^SHA256:[A-Za-z0-9+/]{43}$`)

// prepareFlags are the flags of prepare.
type prepareFlags struct {
	host, user, key, fingerprint, agent string
	port                                int
}

func newPrepare(name string) *cobra.Command {
	var flags prepareFlags
	cmd := &cobra.Command{
		Use:     name + " --host IP [--user USER]",
		Short:   "Let a Mac's user become root, and give it a console session",
		Long:    prepareLong,
		Example: "  macfleet " + prepareExample(name) + " --host 192.0.2.7 --user m1 --key ~/.ssh/fleet",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := flags.preparation()
			if err != nil {
				return usageError{err}
			}
			p.out, p.asked = cmd.OutOrStdout(), terminal{}
			return p.report(cmd.Context(), cmd.ErrOrStderr(), p.run(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&flags.host, "host", "", "the Mac's address (required)")
	flags.add(cmd)
	return cmd
}

// newPrepareFleetHost is prepare by its other name.
func newPrepareFleetHost() *cobra.Command {
	cmd := newPrepare("prepare-fleet-host")
	cmd.Short = "The same as `macfleet host prepare`"
	cmd.Long = "`macfleet host prepare --help` says what it does, and what its exit codes mean."
	return cmd
}

// add adds the flags that say how to get in, and with what.
func (f *prepareFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.user, "user", "m1", "the Mac's user, who runs the agent and its guests")
	set.IntVar(&f.port, "port", 22, "the port of the Mac's SSH")
	set.StringVar(&f.key, "key", "", "the fleet's private SSH key (default: ~/.ssh/id_ed25519)")
	set.StringVar(&f.fingerprint, "host-key-fingerprint", "", "the Mac's ed25519 host key, SHA256:...; without it you are asked")
	set.StringVar(&f.agent, "agent", "", "the agent for Macs (default: the file tart-kubelet beside this program)")
}

func prepareExample(name string) string {
	if name == "prepare" {
		return "host prepare"
	}
	return name
}

// preparation checks all that can be checked without the Mac.
func (f prepareFlags) preparation() (*preparation, error) {
	switch {
	case f.host == "":
		return nil, fmt.Errorf("--host is missing: name the Mac's address")
	case !isAddress(f.host):
		return nil, fmt.Errorf("%q is no address: name the Mac's alone, its user with --user and its port with --port", f.host)
	case f.user == "" || f.user == "root":
		return nil, fmt.Errorf("--user %q cannot run guests: name the Mac's own user, as m1", f.user)
	case f.port < 1 || f.port > 65535:
		return nil, fmt.Errorf("--port %d is none", f.port)
	case f.fingerprint != "" && !fingerprintShape.MatchString(f.fingerprint):
		return nil, fmt.Errorf("--host-key-fingerprint is not SHA256: and 43 characters, as ssh-keygen -lf prints it")
	}
	signer, err := f.signer()
	if err != nil {
		return nil, err
	}
	build, err := f.build()
	if err != nil {
		return nil, err
	}
	p := &preparation{
		target: remote.Target{Address: f.host, Port: f.port, User: f.user, Key: signer},
		build:  build, settle: settleSession,
	}
	if f.fingerprint != "" {
		p.target.Pin = remote.Pin{Algorithm: remote.DefaultAlgorithm, SHA256: f.fingerprint}
	}
	return p, nil
}

// isAddress tells the address of a Mac from what people add to it for ssh.
func isAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return !strings.ContainsAny(host, "@:/ ")
}

func (f prepareFlags) signer() (ssh.Signer, error) {
	path := f.key
	if path == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, fmt.Errorf("finding your SSH key: %w: name it with --key", err)
		}
		path = filepath.Join(home, ".ssh", "id_ed25519")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the SSH key: %w: name the fleet's private key with --key", err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		// What the parser says of it is left out: it is a secret's file.
		return nil, fmt.Errorf("%s holds no private key without a passphrase: name another with --key", path)
	}
	return signer, nil
}

func (f prepareFlags) build() (*remote.Build, error) {
	path, err := f.agentFile()
	if err != nil {
		return nil, err
	}
	return remote.ReadBuild(path)
}

// agentFile is where the agent is, which is a program for Macs.
func (f prepareFlags) agentFile() (string, error) {
	path := f.agent
	if path == "" {
		var err error
		if path, err = beside("tart-kubelet"); err != nil {
			return "", fmt.Errorf("%w: name the agent with --agent", err)
		}
	}
	if err := isAgent(path); err != nil {
		return "", fmt.Errorf("%w: name the agent for Macs (darwin/arm64) with --agent", err)
	}
	return path, nil
}

// settleSession waits as long as macOS may take to seal a wrong password.
func settleSession(ctx context.Context) error { return remote.Pause(ctx, settleAfterSession) }
