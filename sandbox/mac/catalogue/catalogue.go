// Package catalogue lists the commands found on a simulated Mac's disk: those
// that are modelled, and those a real Mac has that are not. The latter exist
// so that running one is recorded as a gap of the simulator, whereas a command
// that no Mac has is simply not found, here as there.
package catalogue

import "path"

// RemoteManagementDir holds the tool that turns Remote Management on and off.
const RemoteManagementDir = "/System/Library/CoreServices/RemoteManagement/ARDAgent.app/Contents/Resources"

// Modelled are the absolute paths of commands that work.
func Modelled() []string {
	return places(map[string][]string{
		"/bin": {
			"cat", "chmod", "cp", "date", "dd", "df", "echo", "hostname", "kill", "launchctl", "ln", "ls", "mkdir",
			"mv", "ps", "pwd", "rm", "rmdir", "sleep", "sync",
		},
		"/usr/bin": {
			"basename", "cmp", "codesign", "csrutil", "cut", "defaults", "dirname", "env", "false", "fdesetup", "grep", "gunzip",
			"gzip", "hdiutil", "head", "id", "killall", "mktemp", "pgrep", "pkill", "pmset", "readlink", "seq", "shasum", "sort", "stat", "sudo",
			"sw_vers", "tail", "tee", "touch", "tr", "true", "uname", "vm_stat", "wc", "whoami", "xz", "xattr",
		},
		"/usr/sbin":         {"chown", "diskutil", "ioreg", "newsyslog", "scutil", "softwareupdate", "spctl", "sshd", "sysctl", "visudo"},
		"/sbin":             {"ifconfig", "newfs_hfs", "pfctl", "reboot", "shutdown"},
		"/opt/homebrew/bin": {"tart"},
		RemoteManagementDir: {"kickstart"},
	})
}

// Unmodelled are the absolute paths of commands that a Mac has and the
// simulator answers with exit code 127.
func Unmodelled() []string {
	return places(map[string][]string{
		"/bin": {"csh", "ed", "expr", "ksh", "link", "pax", "stty", "tcsh", "unlink", "wait4path"},
		"/usr/bin": {
			"at", "awk", "base64", "bzip2", "caffeinate", "comm", "crontab", "curl", "dig",
			"ditto", "dscacheutil", "dscl", "du", "expect", "file", "find", "fold", "install", "ipconfig",
			"join", "jot", "kmutil", "last", "leaks", "less", "lockf", "log", "logger", "login",
			"lsof", "lsvfs", "man", "mdfind", "mdutil", "more", "nc", "nettop", "networkQuality", "nice", "nl", "nohup",
			"nslookup", "od", "open", "openssl", "osascript", "passwd", "paste", "patch", "perl",
			"pkgutil", "plutil", "powermetrics", "profiles", "rsync", "sample", "say", "scp", "screen",
			"script", "security", "sed", "sftp", "sfltool", "split", "ssh", "ssh-keygen", "strings", "su",
			"tar", "tccutil", "time", "tmutil", "top", "tput", "truncate", "tty", "uniq", "unzip", "uptime",
			"uuidgen", "w", "who", "xargs", "xcode-select", "xcrun", "zip", "zsh",
		},
		"/usr/sbin": {
			"arp", "bless", "chroot", "dseditgroup", "firmwarepasswd", "installer", "iostat", "netstat",
			"networksetup", "nvram", "pwpolicy", "scselect", "sysadminctl", "system_profiler", "systemsetup", "systemstats", "traceroute", "vsdbutil",
		},
		"/sbin": {
			"disklabel", "fsck", "fsck_apfs", "halt", "kextload", "launchd", "mknod", "mount", "mount_apfs",
			"newfs_apfs", "nologin", "ping", "route", "umount",
		},
		"/usr/libexec": {"PlistBuddy", "ApplicationFirewall/socketfilterfw"},
		"/System/Library/Filesystems/apfs.fs/Contents/Resources": {"apfs.util"},
	})
}

func places(byDir map[string][]string) []string {
	var out []string
	for dir, names := range byDir {
		for _, name := range names {
			out = append(out, path.Join(dir, name))
		}
	}
	return out
}
