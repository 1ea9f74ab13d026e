package accept

import (
	"slices"
	"strings"
)

// look is one thing that is asked of macOS: some commands, run one after the other.
type look struct {
	id, asked, question string
	// root: only root can run it.
	root bool
	// exact: what is printed is the answer, to the line, and complaints are not part of it.
	exact bool
	// only are the beginnings of the lines that matter; empty: all do.
	only []string
	runs []run
}

// run is one command. Its words are made of letters that mean the same to every shell.
type run struct {
	line string
	// in is its standard input.
	in string
}

func commands(lines ...string) []run {
	all := make([]run, 0, len(lines))
	for _, line := range lines {
		all = append(all, run{line: line})
	}
	return all
}

// userLooks need no root and change nothing.
func userLooks() []look {
	return []look{
		{id: "system", asked: "What system is it?", runs: commands("sw_vers", "uname -m", "uname -s")},
		{id: "boot-session", asked: "Can kern.bootsessionuuid be read without root?", question: "R22", runs: commands("sysctl -n kern.bootsessionuuid")},
		{id: "integrity", asked: "Is System Integrity Protection on?", runs: commands("csrutil status")},
		{id: "gatekeeper", asked: "Is Gatekeeper on?", runs: commands("spctl --status")},
		{id: "power", asked: "Which power settings does pmset name?", question: "R18", runs: commands("pmset -g custom")},
		{id: "ssh-job", asked: "What does launchd say of the SSH job?", question: "R9", runs: commands("launchctl print system/com.openssh.sshd")},
		{id: "no-job", asked: "With which codes does launchctl miss a label?", question: "R9", runs: commands("launchctl print system/dev.macfleet.none")},
		{id: "console", asked: "Who owns the console?", question: "R11", exact: true, runs: commands("stat -f %Su /dev/console")},
		{id: "sshd-files", asked: "What is in the folder of sshd's drop-ins?", question: "R15", runs: commands("ls /etc/ssh/sshd_config.d")},
		{id: "lockout", asked: "What does the account's policy say of wrong passwords?", question: "R1", runs: commands("pwpolicy -getaccountpolicies")},
		{id: "quarantine", asked: "Does tart carry a quarantine mark?", question: "R25", runs: commands("xattr /opt/homebrew/bin/tart")},
	}
}

// anchor is the sub-anchor of the trial alone; nothing else calls it.
const anchor = "com.apple/999.macfleet-accept"

// preferences are a domain of the trial alone.
const preferences = "/Library/Preferences/dev.macfleet.accept"

// rootLooks need root. What they change is the trial's own and is taken away by the last
// of their commands.
func rootLooks() []look {
	const table = "pfctl -a " + anchor + " -t accept"
	return []look{
		{id: "sshd-settings", asked: "What are sshd's effective settings?", question: "R15", root: true, only: sshdSettings(), runs: commands("sshd -T")},
		{id: "pf-main", asked: "What does the packet filter's main ruleset call?", question: "R4", root: true, runs: commands("pfctl -s rules", "pfctl -s Anchors")},
		{id: "pf-flush", asked: "Does -F Tables remove a table that persists?", question: "R3", root: true, exact: true, runs: commands(
			table+" -T add 192.0.2.1", "pfctl -a "+anchor+" -s Tables", "pfctl -a "+anchor+" -F Tables", "pfctl -a "+anchor+" -s Tables", table+" -T kill",
		)},
		{id: "pf-busy", asked: "Is a table busy while a persistent one of its name is active?", question: "R3", root: true, exact: true, runs: []run{
			{line: table + " -T add 192.0.2.1"},
			{line: "pfctl -a " + anchor + " -f -", in: "table <accept> persist { 192.0.2.2 }\n"},
			{line: "pfctl -a " + anchor + " -F rules"},
			{line: table + " -T kill"},
		}},
		{id: "pf-ports", asked: "Does the packet filter print ports as numbers?", root: true, exact: true, runs: []run{
			{line: "pfctl -a " + anchor + " -f -", in: "pass in inet proto tcp from 192.0.2.1 to any port 22\n"},
			{line: "pfctl -a " + anchor + " -s rules"},
			{line: "pfctl -a " + anchor + " -F rules"},
		}},
		{id: "preferences", asked: "Does defaults read a file that was replaced beside it, or what it remembers?", root: true, exact: true, runs: commands(
			"defaults write "+preferences+" looked first", "defaults write "+preferences+"-2 looked second", "defaults read "+preferences+" looked",
			"cp "+preferences+"-2.plist "+preferences+".plist", "defaults read "+preferences+" looked",
			"defaults delete "+preferences, "defaults delete "+preferences+"-2", "rm -f "+preferences+".plist "+preferences+"-2.plist",
		)},
		{id: "launchctl-codes", asked: "With which codes do launchctl's verbs miss a label?", question: "R9", root: true, runs: commands(
			"launchctl kickstart system/dev.macfleet.none", "launchctl bootout system/dev.macfleet.none",
		)},
		{id: "remote-login", asked: "Does systemsetup tell of Remote Login without Full Disk Access?", question: "R14", root: true, runs: commands("systemsetup -getremotelogin")},
		{id: "background-items", asked: "How large is the database of background items?", question: "R8", root: true, runs: commands("ls -l /private/var/db/com.apple.backgroundtaskmanagement")},
	}
}

// shellLine is the command as the login shell gets it.
func (r run) shellLine(root bool) string {
	line := "env LC_ALL=C PATH=/usr/bin:/bin:/usr/sbin:/sbin " + r.line
	if root {
		line = "sudo -n " + line
	}
	return strings.TrimSpace(line)
}

// sshdSettings are those that converge sets, or that logins by key depend on.
func sshdSettings() []string {
	return []string{
		"authorizedkeyscommand ", "authorizedkeysfile ", "kbdinteractiveauthentication ", "maxsessions ", "maxstartups ", "passwordauthentication ",
		"permitrootlogin ", "pubkeyauthentication ", "trustedusercakeys ", "usepam ",
	}
}

// pick leaves out the lines that do not matter.
func (l look) pick(lines []string) []string {
	if len(l.only) == 0 {
		return lines
	}
	return slices.DeleteFunc(lines, func(line string) bool {
		return !exit.MatchString(line) && !slices.ContainsFunc(l.only, func(beginning string) bool { return strings.HasPrefix(line, beginning) })
	})
}
