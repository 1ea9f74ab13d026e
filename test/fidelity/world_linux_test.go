package fidelity

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const (
	// inside marks the process in the namespaces.
	inside = "MACFLEET_FIDELITY_INSIDE"
	// state belongs to the account behind sudo and sshd.
	state = "/etc/fidelity"

	// uid and gid of a Mac's first user; 80 is the group of those who may use sudo.
	uid, gid, adminGroup = 501, 20, 80

	right = `c0rrect "horse" $(battery)`
)

// tools are the programs the world is made of, and the Debian packages with them.
var tools = map[string]string{
	"/usr/sbin/sshd": "openssh-server", "/usr/bin/ssh-keygen": "openssh-client", "/usr/bin/sudo": "sudo",
	"/usr/sbin/visudo": "sudo", "/usr/bin/zsh": "zsh", "/bin/bash": "bash", "/bin/dash": "dash", "/usr/bin/shasum": "perl",
}

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(inside) != "":
		if err := furnish(); err != nil {
			fmt.Fprintln(os.Stderr, "making the world:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	case missing() != "":
		os.Exit(m.Run()) // each test says what is missing
	}
	os.Exit(enter())
}

// missing says in words what this machine lacks.
func missing() string {
	if os.Geteuid() != 0 {
		return "needs root"
	}
	var packages []string
	for path, name := range tools {
		if _, err := os.Stat(path); err != nil {
			packages = append(packages, name)
		}
	}
	if len(packages) > 0 {
		return "needs the packages " + strings.Join(packages, " ")
	}
	if _, err := user.Lookup("sshd"); err != nil {
		return "needs the user sshd of the package openssh-server"
	}
	if out, err := inNamespaces("/bin/true").CombinedOutput(); err != nil {
		return fmt.Sprintf("needs namespaces of its own: %v %s", err, out)
	}
	return ""
}

// enter runs these tests again, in namespaces of their own.
func enter() int {
	cmd := inNamespaces(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		return max(ended.ExitCode(), 1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "entering namespaces:", err)
		return 1
	}
	return 0
}

func inNamespaces(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: all, GidMappings: all, GidMappingsEnableSetgroups: true,
		Pdeathsig: syscall.SIGKILL,
	}
	return cmd
}

// furnish puts folders of the world's own over those of the machine.
func furnish() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("parting from the machine's mounts: %w", err)
	}
	if err := syscall.Mount("fidelity", "/mnt", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("mounting a disk: %w", err)
	}
	if out, err := exec.Command("cp", "-a", "/etc", "/mnt/etc").CombinedOutput(); err != nil {
		return fmt.Errorf("copying /etc: %w: %s", err, out)
	}
	if out, err := exec.Command("/bin/sh", "-c", "rm -f /mnt/etc/ssh/ssh_host_*").CombinedOutput(); err != nil {
		return fmt.Errorf("leaving the machine's host keys out: %w: %s", err, out)
	}
	if err := syscall.Mount("/mnt/etc", "/etc", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting /etc: %w", err)
	}
	for _, dir := range []string{"/run", "/usr/local", "/home"} {
		if err := syscall.Mount("fidelity", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mounting %s: %w", dir, err)
		}
	}
	return errors.Join(os.MkdirAll("/run/sshd", 0o755), os.MkdirAll(state, 0o700), settle())
}

// account stands for the directory of a Mac: an empty password never reaches it, all
// others are counted; while it is locked none is right, and nobody may log in.
const account = `#!/bin/sh
cd /etc/fidelity || exit 1
if [ "$PAM_TYPE" = account ]; then [ ! -e locked ]; exit; fi
given=$(tr -d "\000")
[ "$given" ] || exit 1
echo x >>verifications
[ ! -e locked ] && [ "$given" = "$(cat password)" ]
`

// sudoers are those of a Mac, as far as they matter here.
const sudoers = `Defaults env_reset
Defaults env_keep += "HOME MAIL"
Defaults passwd_tries=3, timestamp_timeout=5, timestamp_type=tty
Defaults lecture=never
root ALL=(ALL) ALL
%admin ALL=(ALL) ALL
@includedir /etc/sudoers.d
`

// A failing pam_exec alone would be an error of the system to sudo, which then asks
// no second time, as it does on a Mac.
const pamSudo = `auth [success=1 default=ignore] pam_exec.so quiet expose_authtok seteuid /etc/fidelity/account
auth requisite pam_deny.so
auth required pam_permit.so
account required pam_permit.so
session required pam_permit.so
`

const pamSSH = `auth required pam_deny.so
account required pam_exec.so quiet seteuid /etc/fidelity/account
session required pam_permit.so
`

const sshdConfig = `HostKey /etc/ssh/ssh_host_ecdsa_key
HostKey /etc/ssh/ssh_host_ed25519_key
HostKey /etc/ssh/ssh_host_rsa_key
UsePAM yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AuthorizedKeysFile .ssh/authorized_keys .ssh/scw_authorized_keys
LogLevel VERBOSE
`

// settle writes what never changes afterwards.
func settle() error {
	err := errors.Join(
		write("/etc/sudoers", sudoers, 0o440), write("/etc/pam.d/sudo", pamSudo, 0o644),
		write("/etc/pam.d/sshd", pamSSH, 0o644), write(state+"/sshd_config", sshdConfig, 0o600),
		write(state+"/account", account, 0o755), write(state+"/password", right, 0o600),
	)
	for name, line := range map[string]string{"group": "wheel:x:0:\nadmin:x:80:m1\n", "shadow": "m1:*:19000:0:99999:7:::\n"} {
		text, rerr := os.ReadFile("/etc/" + name)
		err = errors.Join(err, rerr, write("/etc/"+name, string(text)+line, 0o644))
	}
	users, rerr := os.ReadFile("/etc/passwd")
	return errors.Join(err, rerr, write(state+"/passwd", string(users), 0o644))
}

func write(path, text string, mode os.FileMode) error {
	// A file keeps the mode it had, and sudo looks at it.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// world is one test's: nothing is left of the one before but the host keys, which
// take long to make.
type world struct{ t *testing.T }

// fresh is a world in which nobody has done anything, with this login shell.
func fresh(t *testing.T, shell string) *world {
	t.Helper()
	if why := missing(); os.Getenv(inside) == "" {
		t.Skip(why)
	}
	w := &world{t}
	for _, path := range []string{"/etc/sudoers.d", "/usr/local/libexec", state + "/verifications", state + "/locked", "/home/m1", "/run/sudo"} {
		w.must(os.RemoveAll(path))
	}
	users, err := os.ReadFile(state + "/passwd")
	w.must(err)
	w.put("/etc/passwd", fmt.Sprintf("%sm1:x:%d:%d::/home/m1:%s\n", users, uid, gid, shell), 0o644)
	w.must(os.MkdirAll("/etc/sudoers.d", 0o755))
	w.must(os.MkdirAll("/home/m1/.ssh", 0o700))
	w.must(os.Chown("/home/m1", uid, gid))
	w.must(os.Chown("/home/m1/.ssh", uid, gid))
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(path, text string, mode os.FileMode) {
	w.t.Helper()
	w.must(os.MkdirAll(filepath.Dir(path), 0o755))
	w.must(write(path, text, mode))
}

// verifications is how often a password was looked at.
func (w *world) verifications() int {
	w.t.Helper()
	text, err := os.ReadFile(state + "/verifications")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return strings.Count(string(text), "x")
}

// as runs a script as the Mac's user; PASSWORD is in its environment.
func (w *world) as(shell, script, password string) (stdout, stderr string, ok bool) {
	w.t.Helper()
	cmd := exec.Command(shell, "-c", script)
	cmd.Dir = "/home/m1"
	cmd.Env = []string{"HOME=/home/m1", "USER=m1", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "PASSWORD=" + password}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: []uint32{adminGroup}}, Setsid: true,
	}
	var out, complaints strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		w.t.Fatal(err)
	}
	return out.String(), complaints.String(), err == nil
}
