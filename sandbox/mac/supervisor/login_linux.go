package supervisor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/sandbox/mac/process"
	"github.com/macfleet/macfleet/sandbox/mac/sshd"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

const hostKeyDir = "/private/etc/ssh"

// sshServer is the Mac's sshd: who may come in, and what runs for them.
type sshServer struct{ *pid1 }

// hostKeys reads the host's keys for one connection, making those that are
// missing: a Mac makes them at the first connection, not at boot.
func (p sshServer) hostKeys() ([]ssh.Signer, error) {
	if foreign := p.door.impostor(); foreign != nil {
		return foreign, nil
	}
	p.hostKey.Lock()
	defer p.hostKey.Unlock()
	var signers []ssh.Signer
	for _, kind := range hostKeyKinds() {
		path := filepath.Join(hostKeyDir, "ssh_host_"+kind+"_key")
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			data, err = makeHostKey(kind, path)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the %s key: %w", kind, err)
		}
		signer, err := ssh.ParsePrivateKey(data)
		if err != nil {
			return nil, fmt.Errorf("parsing the %s key: %w", kind, err)
		}
		signers = append(signers, signer)
	}
	return signers, nil
}

// hostKeyKinds are those macOS' key generation wrapper makes.
func hostKeyKinds() []string { return []string{"ecdsa", "ed25519", "rsa"} }

// rsaBits is less than ssh-keygen's 3072, to spare hundreds of Macs the time.
const rsaBits = 2048

func newHostKey(kind string) (key any, err error) {
	switch kind {
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, rsaBits)
	default:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		return nil, fmt.Errorf("making it: %w", err)
	}
	return key, nil
}

func makeHostKey(kind, path string) ([]byte, error) {
	key, err := newHostKey(kind)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, fmt.Errorf("encoding it: %w", err)
	}
	data := pem.EncodeToMemory(block)
	signer, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, fmt.Errorf("reading it back: %w", err)
	}
	if err := os.WriteFile(path+".pub", ssh.MarshalAuthorizedKey(signer.PublicKey()), 0o644); err != nil {
		return nil, err
	}
	return data, os.WriteFile(path, data, 0o600)
}

func listsKey(data []byte, key ssh.PublicKey) bool {
	for len(data) > 0 {
		k, _, _, rest, err := ssh.ParseAuthorizedKey(data)
		if err != nil {
			return false
		}
		if bytes.Equal(k.Marshal(), key.Marshal()) {
			return true
		}
		data = rest
	}
	return false
}

// accountOpen is sshd's account stage: a locked account closes key logins too.
func (p sshServer) accountOpen(string) bool { return !p.account.Locked() }

// login runs one SSH command as the user, through the login shell.
func (p sshServer) login(s sshd.Session) (sshd.Running, error) {
	argv := []string{"sh", "-c", s.Command}
	if s.Command == "" {
		argv = []string{"-sh"}
	}
	env := []string{
		"PATH=" + wire.DefaultPath, "TMPDIR=" + userTemp + "/",
		"SSH_CLIENT=" + s.Client, "SSH_CONNECTION=" + s.Client + " " + s.Server,
	}
	uid, home, account := p.identity(s.User)
	for k, v := range account {
		env = append(env, k+"="+v)
	}
	proc, err := p.table.Start(process.Spec{
		Path: "/bin/sh", Argv: argv, Env: append(env, s.Env...), Dir: home,
		UID: uid, Files: s.Files, Terminal: s.Terminal,
	})
	if err != nil {
		return nil, err
	}
	return &session{Process: proc, p: p.pid1, uid: uid, argv: append([]string{"/bin/sh"}, argv[1:]...)}, nil
}

// userTemp is the user's own temporary folder, as confstr(3) names it.
const userTemp = "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T"
