package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/sandbox/mac/sshconf"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

var errNotIn = errors.New("login refused")

// lockedBanner is what a Mac says whose disk waits for a password.
const lockedBanner = "This system is locked. To unlock it, use a local account name and password. " +
	"Once successfully unlocked, you will be able to connect normally.\n"

// configureSSH holds one connection to sshd's settings as they are on the disk,
// and returns how long it may take to log in. Settings that sshd cannot read
// end the connection.
func (p sshServer) configureSSH(c *ssh.ServerConfig) (time.Duration, error) {
	if p.cfg.Switches.Quirks.BaseSystem {
		c.PublicKeyCallback = nil
		c.BannerCallback = func(ssh.ConnMetadata) string { return lockedBanner }
		c.PasswordCallback = func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			p.verify(string(password))
			return nil, errNotIn // even the right one does not log in here
		}
		return 0, nil
	}
	conf, err := sshconf.Read("", sshconf.MainFile)
	if err != nil {
		return 0, fmt.Errorf("configuration: %w", err)
	}
	c.MaxAuthTries = conf.MaxAuthTries()
	if c.MaxAuthTries == 0 {
		c.MaxAuthTries = 1
	}
	if !conf.Yes("pubkeyauthentication") {
		c.PublicKeyCallback = nil
	}
	if conf.Yes("passwordauthentication") {
		c.PasswordCallback = func(m ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			return p.passwordLogin(conf, m.User(), string(password))
		}
	}
	if conf.Yes("kbdinteractiveauthentication") && conf.Yes("usepam") {
		c.KeyboardInteractiveCallback = func(m ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
			answers, err := ask("", "", []string{fmt.Sprintf("(%s@%s) Password:", m.User(), p.cfg.Address)}, []bool{false})
			if err != nil || len(answers) != 1 {
				return nil, errNotIn
			}
			return p.passwordLogin(conf, m.User(), answers[0])
		}
	}
	return conf.LoginGrace(), nil
}

// passwordLogin asks Open Directory, which counts. Root has no password here.
func (p sshServer) passwordLogin(conf *sshconf.Config, user, password string) (*ssh.Permissions, error) {
	if user != p.cfg.Username || !conf.MayLogIn(user) || !p.verify(password).Verified {
		return nil, errNotIn
	}
	return &ssh.Permissions{}, nil
}

// authorized looks for a key in the files that sshd's settings name.
func (p sshServer) authorized(user string, key ssh.PublicKey) bool {
	homes := map[string]string{p.cfg.Username: "/Users/" + p.cfg.Username, "root": "/var/root"}
	home, known := homes[user]
	if !known || p.door.noKeys() {
		return false
	}
	conf, err := sshconf.Read("", sshconf.MainFile)
	if err != nil || !conf.MayLogIn(user) {
		return false
	}
	uid, _, _ := p.identity(user)
	for _, name := range conf.KeyFiles(user, home) {
		if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if conf.Yes("strictmodes") && !p.strict(name, uid) {
			p.log("sshd: Authentication refused: bad ownership or modes for " + name)
			continue
		}
		data, err := os.ReadFile(name)
		if err == nil && listsKey(data, key) {
			return true
		}
	}
	return false
}

// strict is sshd's StrictModes: a file of keys, and all folders above it, are root's
// or the user's, and nobody else may write them. sshd reads the file as the user.
func (p sshServer) strict(name string, user int) bool {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return false
	}
	for at := real; at != "/"; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return false
		}
		inode, err := wire.InodeOf(at)
		if err != nil {
			return false
		}
		owner := p.state.owner(wire.OwnerCall{Inode: inode, Path: at})
		if info.Mode().Perm()&0o022 != 0 || owner.UID != wire.RootUID && owner.UID != user {
			return false
		}
		if at == real && owner.UID != user && info.Mode().Perm()&0o004 == 0 {
			return false
		}
	}
	return true
}

// identity is who a login runs as: uid, home and environment.
func (p sshServer) identity(user string) (uid int, home string, env map[string]string) {
	if user == "root" {
		return wire.RootUID, "/var/root", map[string]string{
			"HOME": "/var/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/sh",
		}
	}
	return wire.UserUID, "/Users/" + p.cfg.Username, p.accountEnv()
}
