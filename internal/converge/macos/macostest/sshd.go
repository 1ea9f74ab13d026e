package macostest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"syscall"

	"github.com/macfleet/macfleet/internal/converge/macos"
)

const sshdDropIns = "/etc/ssh/sshd_config.d"

// SSHLabel is launchd's job that listens for the SSH server, and SSHPlist defines it.
const (
	SSHLabel = "com.openssh.sshd"
	SSHPlist = "/System/Library/LaunchDaemons/ssh.plist"

	sshDefinition = `<plist><dict><key>Label</key><string>` + SSHLabel + `</string>` +
		`<key>Sockets</key><dict><key>Listeners</key><dict/></dict></dict></plist>`
)

// SSHD is the SSH server of a Mac in memory.
type SSHD struct {
	// Defaults are in force where no file says anything, by lower-case keyword.
	Defaults map[string]string
	// Broken makes it refuse every file.
	Broken bool
	// Silent keeps it from answering, until launchd opens its socket anew.
	Silent bool
	// Deaf keeps it from taking any key.
	Deaf bool
	// Reloads counts how often its job was loaded after it had been booted out.
	Reloads int
}

func newSSHD() SSHD {
	return SSHD{Defaults: map[string]string{
		"port": "22", "passwordauthentication": "yes", "kbdinteractiveauthentication": "yes",
		"permitrootlogin": "prohibit-password", "maxauthtries": "6", "logingracetime": "120",
		"allowagentforwarding": "yes", "x11forwarding": "no", "usepam": "yes",
		"authorizedkeysfile": ".ssh/authorized_keys .ssh/scw_authorized_keys", "authorizedkeyscommand": "none",
		"trustedusercakeys": "none", "hostbasedauthentication": "no", "pubkeyauthentication": "yes",
	}}
}

type sshd struct{ m *Mac }

func (s sshd) Check(_ context.Context, name string) error {
	if _, found := s.m.Get(name); !found {
		return missing("open", name)
	}
	if s.m.SSHD.Broken {
		return errors.New("sshd: exit 255: bad configuration option")
	}
	return nil
}

// Effective resolves the files as sshd does: in the order of their names, and the
// first value counts.
func (s sshd) Effective(ctx context.Context) (map[string]string, error) {
	names, err := files(s).List(sshdDropIns)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	for _, name := range names {
		data, _ := s.m.Get(path.Join(sshdDropIns, name))
		for line := range strings.SplitSeq(string(data), "\n") {
			key, value, found := strings.Cut(strings.TrimSpace(line), " ")
			key = strings.ToLower(key)
			if _, said := settings[key]; found && !said && key != "#" {
				settings[key] = value
			}
		}
	}
	all := maps.Clone(s.m.SSHD.Defaults)
	maps.Copy(all, settings)
	return all, ctx.Err()
}

func (s sshd) Answers(context.Context) error {
	if !s.m.listens(SSHLabel) {
		return fmt.Errorf("the SSH server does not answer: %w", syscall.ECONNREFUSED)
	}
	if s.m.SSHD.Silent {
		return errors.New("the SSH server says nothing")
	}
	return nil
}

// Accepts looks into the files that the settings name.
func (s sshd) Accepts(ctx context.Context, user, key string) error {
	settings, err := s.Effective(ctx)
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(settings["authorizedkeysfile"]) {
		if !path.IsAbs(name) {
			name = path.Join("/Users", user, name)
		}
		data, _ := s.m.Get(name)
		if !s.m.SSHD.Deaf && strings.Contains(string(data), key) {
			return nil
		}
	}
	return errors.New("the SSH server does not take the key")
}

var _ macos.SSHD = sshd{}
