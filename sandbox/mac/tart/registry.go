package tart

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// loginFile stands for the login keychain.
func (c images) loginFile() string { return filepath.Join(string(c.home), ".logins.json") }

// logins are user:password by host. What cannot be read is no login.
func (c images) logins() map[string]string {
	all := map[string]string{}
	if data, err := os.ReadFile(c.loginFile()); err == nil {
		_ = json.Unmarshal(data, &all) // a keychain that is broken holds nothing
	}
	return all
}

func (c images) saveLogins(all map[string]string) error {
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("storing credentials: %w", err)
	}
	if err := os.WriteFile(c.loginFile(), data, 0o600); err != nil {
		return fmt.Errorf("storing credentials: %w", err)
	}
	return nil
}

// login stores credentials, which a keychain that is locked refuses.
func (c images) login(_ context.Context, args []string) error {
	a := newArguments("login <host> [--username <username>] [--password-stdin] [--insecure] [--no-validate]")
	user := a.String("username", "", "")
	stdin := a.Bool("password-stdin", false, "")
	unchecked := a.Bool("no-validate", false, "")
	a.ignore([]string{"insecure"}, nil)
	words, err := a.parse(args, 1, 1)
	if err != nil {
		return err
	}
	if *user == "" || !*stdin {
		return a.wrong("both --username and --password-stdin are required")
	}
	if err := c.plan.strikes(RunNoSession, words[0], runtimeError("Keychain error: User interaction is not allowed. (OSStatus -25308)")); err != nil {
		return err
	}
	line, err := bufio.NewReader(c.env.Stdin).ReadString('\n')
	password := strings.TrimRight(line, "\r\n")
	if password == "" {
		return errors.Join(errors.New("no password on stdin"), err)
	}
	all := c.logins()
	all[words[0]] = *user + ":" + password
	if wanted := c.plan.credentials(reference{host: words[0]}); !*unchecked && wanted != "" && wanted != all[words[0]] {
		return runtimeError("invalid credentials: UnexpectedHTTPStatusCode(when: \"authenticating\", code: 401)")
	}
	return c.saveLogins(all)
}

func (c images) logout(_ context.Context, args []string) error {
	words, err := newArguments("logout <host>").parse(args, 1, 1)
	if err != nil {
		return err
	}
	all := c.logins()
	delete(all, words[0])
	return c.saveLogins(all)
}

// push puts a VM under remote names. The registry here has no images of its own making:
// what was pushed can be pulled where a catalogue is kept, and is forgotten elsewhere.
func (c images) push(_ context.Context, args []string) error {
	a := newArguments("push <local-name> <remote-names> ... [--populate-cache]")
	a.ignore([]string{"insecure", "populate-cache"}, []string{"concurrency", "chunk-size", "label", "disk-format"})
	words, err := a.parse(args, 2, -1)
	if err != nil {
		return err
	}
	vm, err := c.home.local(words[0])
	if err != nil {
		return err
	}
	if vm.holder() != 0 {
		return runtimeError(fmt.Sprintf("VM %q is running", words[0]))
	}
	cfg, err := vm.readConfig()
	if err != nil {
		return err
	}
	disk, err := vm.diskBytes()
	if err != nil {
		return err
	}
	image := Image{
		OS: cfg.OS, CPUMin: cfg.CPUCountMin, MemoryMinMB: int(cfg.MemorySizeMin / mebibyte),
		DiskGB: int(disk / 1_000_000_000), DiskFormat: cfg.DiskFormat,
	}
	for _, name := range words[1:] {
		ref, ok := parseReference(name)
		if !ok || ref.tag == "" {
			return runtimeError("failed to parse remote name: " + name)
		}
		c.printf("pushing %s to %s...\n", words[0], ref)
		if err := c.publish(ref, image); err != nil {
			return err
		}
	}
	return nil
}

func (c images) publish(ref reference, image Image) error {
	catalogue := c.env.Getenv("TART_FAKE_REGISTRY")
	if catalogue == "" {
		return nil
	}
	path := filepath.Join(catalogue, ref.host, filepath.FromSlash(ref.namespace), ref.tag+".json")
	data, err := json.Marshal(image)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("pushing %s: %w", ref, err)
	}
	return nil
}

// exportVM writes a VM to a directory, which stands for tart's archive.
func (c *cli) exportVM(_ context.Context, args []string) error {
	words, err := newArguments("export <name> [<path>]").parse(args, 1, 2)
	if err != nil {
		return err
	}
	vm, err := c.home.local(words[0])
	if err != nil {
		return err
	}
	if vm.holder() != 0 {
		return runtimeError(fmt.Sprintf("VM %q is running", words[0]))
	}
	path := words[0] + ".tvm"
	if len(words) > 1 {
		path = words[1]
	}
	c.printf("exporting...\n")
	if err := os.Mkdir(path, 0o755); err != nil {
		return fmt.Errorf("exporting: %w", err)
	}
	return vm.copyTo(vmDir(path), false)
}

// importVM is the way back.
func (c *cli) importVM(_ context.Context, args []string) error {
	a := newArguments("import <path> <name>")
	words, err := a.parse(args, 2, 2)
	if err != nil {
		return err
	}
	if strings.Contains(words[1], "/") {
		return a.wrong("<name> should be a local name")
	}
	source := vmDir(words[0])
	if !source.complete() {
		return fmt.Errorf("importing: %w", &fs.PathError{Op: "open", Path: words[0], Err: fs.ErrNotExist})
	}
	copied, release, err := c.home.newTemporary()
	if err != nil {
		return err
	}
	defer release()
	lock, err := c.home.lock()
	if err != nil {
		return err
	}
	defer lock.close()
	c.printf("importing...\n")
	if err := source.copyTo(copied, false); err != nil {
		return err
	}
	return c.placeVM(copied, words[1])
}
