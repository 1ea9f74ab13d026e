package mac

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/macfleet/macfleet/sandbox/mac/catalogue"
	"github.com/macfleet/macfleet/sandbox/mac/pf"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// folders of a fresh Mac with their modes, parents first. /usr/local has no bin
// and there is no /home, as on a delivered machine.
func folders(user string) []folder {
	home := "Users/" + user
	return []folder{
		{"private/etc/sudoers.d", 0o755},
		{"private/etc/ssh/sshd_config.d", 0o755},
		{"private/etc/newsyslog.d", 0o755},
		{"private/etc/pf.anchors", 0o755},
		{"private/tmp", 0o777 | fs.ModeSticky},
		{"private/var/db", 0o755},
		{"private/var/log", 0o755},
		{"private/var/run", 0o755},
		{"private/var/root", 0o750},
		{"private/var/tmp", 0o777 | fs.ModeSticky},
		{"private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T", 0o700},
		{home + "/.ssh", 0o700},
		{home + "/Library/Logs", 0o700},
		{"Users/Shared", 0o777 | fs.ModeSticky},
		{"Library/LaunchDaemons", 0o755},
		{"Library/LaunchAgents", 0o755},
		{"Library/Application Support/Apple/Remote Desktop", 0o755},
		{"Library/Logs", 0o755},
		{"Library/Preferences", 0o755},
		{"Library/Managed Preferences", 0o755},
		{"System/Library/LaunchDaemons", 0o755},
		{"System/Volumes/Data", 0o755},
		{"Volumes", 0o755},
		{"Applications", 0o755},
		{"bin", 0o755},
		{"sbin", 0o755},
		{"usr/bin", 0o755},
		{"usr/sbin", 0o755},
		{"usr/libexec", 0o755},
		{"usr/local", 0o755},
		{"opt/homebrew/bin", 0o755},
		{"dev", 0o755},
		{"proc", 0o555},
		{strings.TrimPrefix(wire.HiddenDir, "/"), 0o755},
	}
}

type folder struct {
	path string
	mode fs.FileMode
}

// plantTree makes a fresh disk.
func plantTree(root string, a account) error {
	for _, f := range folders(a.username) {
		path := filepath.Join(root, f.path)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return fmt.Errorf("making /%s: %w", f.path, err)
		}
		if err := os.Chmod(path, f.mode); err != nil {
			return fmt.Errorf("making /%s: %w", f.path, err)
		}
	}
	if err := plantLinks(root); err != nil {
		return err
	}
	for path, f := range systemFiles(a) {
		full := filepath.Join(root, path)
		if err := os.WriteFile(full, []byte(f.text), f.mode); err != nil {
			return fmt.Errorf("writing /%s: %w", path, err)
		}
		if err := os.Chmod(full, f.mode); err != nil {
			return fmt.Errorf("writing /%s: %w", path, err)
		}
	}
	return plantAutoLogin(root, a)
}

// programOf is the program that a command of that name is.
func programOf(command string) string {
	if command == "tart" || command == "nc" {
		return wire.BinaryPath
	}
	return wire.ShimPath
}

func plantLinks(root string) error {
	links := map[string]string{"/etc": "private/etc", "/var": "private/var", "/tmp": "private/tmp"}
	for _, command := range append(catalogue.Modelled(), catalogue.Unmodelled()...) {
		links[command] = programOf(path.Base(command))
	}
	for path, target := range links {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return fmt.Errorf("making room for %s: %w", path, err)
		}
		if err := os.Symlink(target, full); err != nil {
			return fmt.Errorf("linking %s: %w", path, err)
		}
	}
	return nil
}

// screenSharingPlist is switched off where nobody switches it on, and starts nothing
// before somebody connects. Its socket is not modelled.
const screenSharingPlist = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Disabled</key>
	<true/>
	<key>Label</key>
	<string>` + wire.ScreenSharing + `</string>
	<key>ProgramArguments</key>
	<array>
		<string>/System/Library/CoreServices/RemoteManagement/screensharingd.bundle/Contents/MacOS/screensharingd</string>
	</array>
</dict>
</plist>
`

type systemFile struct {
	text string
	mode fs.FileMode
}

func systemFiles(a account) map[string]systemFile {
	keys := ""
	if len(a.keys) > 0 {
		keys = strings.Join(a.keys, "\n") + "\n"
	}
	return map[string]systemFile{
		"private/etc/sudoers": {"Defaults env_reset\nDefaults env_keep += \"HOME MAIL\"\nroot ALL = (ALL) ALL\n" +
			"%admin ALL = (ALL) ALL\n@includedir /private/etc/sudoers.d\n", 0o440},
		"private/etc/passwd": {"root:*:0:0:System Administrator:/var/root:/bin/sh\n" +
			fmt.Sprintf("%s:*:%d:%d:%s:/Users/%s:/bin/sh\n", a.username, wire.UserUID, wire.StaffGID, a.username, a.username), 0o644},
		"private/etc/group":                            {fmt.Sprintf("wheel:*:0:root\nstaff:*:20:root\nadmin:*:80:root,%s\n", a.username), 0o644},
		"private/etc/hosts":                            {"127.0.0.1\tlocalhost\n255.255.255.255\tbroadcasthost\n::1\tlocalhost\n", 0o644},
		"private/etc/shells":                           {"/bin/sh\n", 0o644},
		"private/etc/pf.conf":                          {pf.StockFiles()["/etc/pf.conf"], 0o644},
		"private/etc/services":                         {pf.StockFiles()["/etc/services"], 0o644},
		"private/etc/pf.anchors/com.apple":             {pf.StockFiles()["/etc/pf.anchors/com.apple"], 0o644},
		"private/etc/ssh/sshd_config.d/100-macos.conf": {"UsePAM yes\nAcceptEnv LANG LC_*\nSubsystem sftp /usr/libexec/sftp-server\n", 0o644},
		"private/etc/ssh/sshd_config": {"Include /etc/ssh/sshd_config.d/*\nAuthorizedKeysFile .ssh/authorized_keys .ssh/scw_authorized_keys\n" +
			"UsePAM yes\n", 0o644},
		"Users/" + a.username + "/.ssh/scw_authorized_keys": {keys, 0o600},
		// The vendor offers VNC: its image shares the screen.
		strings.TrimPrefix(wire.ScreenSharingPlist, "/"):   {screenSharingPlist, 0o644},
		strings.TrimPrefix(wire.RemoteManagementFile, "/"): {"enabled", 0o644},
	}
}

// emptyVolatile clears what a boot clears.
func emptyVolatile(root string) error {
	for _, path := range []string{"private/var/run", "private/tmp"} {
		dir := filepath.Join(root, path)
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("clearing /%s: %w", path, err)
		}
		for _, e := range entries {
			if err := removeAll(filepath.Join(dir, e.Name())); err != nil {
				return fmt.Errorf("clearing /%s: %w", path, err)
			}
		}
	}
	return nil
}

// removeAll is os.RemoveAll for folders that forbid it by their mode.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			return os.Chmod(p, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(path))
}

func copyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
