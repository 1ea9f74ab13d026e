package stage0

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// The folders of a Mac whose contents are compared: all that a bootstrap writes to.
var written = []string{
	"private/etc", "usr/local", "Library/LaunchDaemons", "Library/Preferences", "private/var/db/macfleet",
	"Users/m1", "Volumes", "private/var/log/macfleet",
}

// ephemeral is what tells when, or in which boot, something was done.
var ephemeral = []string{
	"private/var/db/macfleet/lock", "private/var/db/macfleet/report.json",
	"private/var/log/macfleet/",
	// It counts the restarts of loginwindow, as counters do: a boot makes one needless,
	// and then nobody takes their lock.
	"private/var/db/macfleet/session.json", "private/var/db/macfleet/session.lock",
	// Each Mac of these tests has its own.
	"private/etc/ssh/ssh_host_", "Users/m1/.ssh/",
	// What a trial of the volume leaves where it is cut off.
	"Volumes/macfleet/.macfleet-owner",
}

// end is the state of the Mac: its files with their owners and modes, and what
// runs, is loaded and set.
func (b *bench) end() map[string]string {
	b.t.Helper()
	all := map[string]string{}
	for _, dir := range written {
		b.addFiles(all, dir)
	}
	b.addOwners(all)
	for _, line := range []string{
		"pfctl -s rules", "pfctl -a com.apple/000.macfleet -s rules", "pfctl -s Anchors", "pfctl -s info 2>/dev/null | grep Status | cut -d' ' -f1-2",
		// A service is enabled without an override, too: one that a boot loaded before
		// it was enabled by converge has none.
		"launchctl print-disabled system | grep '=> disabled'", "pmset -g custom", "scutil --get HostName", "stat -f %Su /dev/console",
		"launchctl print system/" + document.AgentLabel + " | grep -E 'state =|program =|path ='",
		"launchctl print system/" + document.HostdLabel + " | grep -E 'state =|program =|path ='",
	} {
		all[line] = b.root(line + " 2>/dev/null || true")
	}
	for name, text := range all {
		all[name] = b.withoutIdentity(text)
	}
	return all
}

// withoutIdentity takes out what each Mac has of its own: its addresses, the IPv6 one
// made of the other, and the key of whoever converges it.
func (b *bench) withoutIdentity(text string) string {
	four := b.Address().Addr()
	o := four.As4()
	six := fmt.Sprintf("%x:%x", uint16(o[0])<<8|uint16(o[1]), uint16(o[2])<<8|uint16(o[3]))
	return strings.NewReplacer(four.String()+"\n", "its address\n", six+"\n", "its address\n", b.authorizedKey(), "its key").Replace(text)
}

func (b *bench) addFiles(all map[string]string, dir string) {
	b.t.Helper()
	err := fs.WalkDir(os.DirFS(b.Root()), dir, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if slices.ContainsFunc(ephemeral, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			return nil
		}
		// The simulated tart's own record of its runs.
		if strings.HasSuffix(name, ".jsonl") {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := b.content(name, info)
		all["/"+name] = info.Mode().String() + " " + content
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) content(name string, info fs.FileInfo) (string, error) {
	path := filepath.Join(b.Root(), name)
	if info.Mode().Type() == fs.ModeSymlink {
		return os.Readlink(path)
	}
	if !info.Mode().IsRegular() {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(name, "private/var/db/macfleet/") && strings.HasSuffix(name, ".json") {
		return withoutTimes(data), nil
	}
	if len(data) > 4096 || !utf8.Valid(data) {
		return fmt.Sprintf("%x", sha256.Sum256(data)), nil
	}
	return string(data), nil
}

// withoutTimes leaves of a record whether a time, a boot, a token or a volume is
// named, not which; so, too, of counters.
func withoutTimes(data []byte) string {
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return "damaged: " + string(data)
	}
	for _, name := range []string{"created", "askedAt", "provedAt", "kickedAt", "bootSession", "token", "uuid", "counter"} {
		if _, found := fields[name]; found {
			fields[name] = "some"
		}
	}
	text, _ := json.Marshal(fields) // what was just decoded
	return string(text)
}

// addOwners asks the Mac, which knows whose its files are.
func (b *bench) addOwners(all map[string]string) {
	b.t.Helper()
	var script strings.Builder
	for name := range all {
		script.WriteString("stat -f '%N %Su:%Sg' '" + name + "'\n")
	}
	for line := range strings.Lines(b.root(script.String() + "true")) {
		name, owner, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] += " " + owner
	}
}

// counters are the effects that are to happen once.
type counters struct{ Verifications, Kicks, Volumes, Registrations int }

func (b *bench) counters() counters {
	b.t.Helper()
	registrations, err := b.Registrations()
	if err != nil {
		b.t.Fatal(err)
	}
	c := counters{Verifications: b.PasswordVerifications(), Registrations: registrations.Count}
	for _, e := range b.Transcript() {
		switch line := strings.Join(e.Argv, " "); {
		case strings.Contains(line, "killall loginwindow"): // macOS refuses the kickstart before it
			c.Kicks++
		case strings.Contains(line, "apfs addVolume"):
			c.Volumes++
		}
	}
	return c
}
