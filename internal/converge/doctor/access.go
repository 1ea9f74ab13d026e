package doctor

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const sudoersDir = "/etc/sudoers.d"

func sudoRules(ctx context.Context, x *exam) Finding {
	if _, err := x.output(ctx, "/usr/sbin/visudo", "-c"); err != nil {
		return problem("visudo refuses the rules there are: "+err.Error(),
			"sudo may ask for a password that nobody knows any more", "look at them: sudo visudo -c")
	}
	names, err := x.Mac.Files.List(sudoersDir)
	if err != nil && !absent(err) {
		return unseen(err)
	}
	var broad, ignored []string
	for _, name := range names {
		if strings.Contains(name, ".") || strings.HasSuffix(name, "~") {
			ignored = append(ignored, name)
			continue
		}
		data, err := x.read(path.Join(sudoersDir, name))
		if err != nil {
			return unseen(err)
		}
		if grantsAll(string(data)) {
			broad = append(broad, name)
		}
	}
	switch {
	case len(broad) > 0:
		return problem("everything without a password by "+strings.Join(broad, ", "),
			"whoever becomes the console user is root", "run converge to its end: its last step narrows the rule")
	case len(ignored) > 0:
		return warning("sudo ignores files with a dot or a tilde at the end: "+strings.Join(ignored, ", "),
			"what they grant is not granted", "rename or remove them")
	}
	return well("no rule grants everything without a password (%d files in %s)", len(names), sudoersDir)
}

// grantsAll reports whether a line lets somebody run everything without a password.
func grantsAll(rules string) bool {
	for line := range strings.Lines(rules) {
		line, _, _ = strings.Cut(line, "#")
		_, commands, found := strings.Cut(line, "NOPASSWD:")
		if found && strings.TrimSpace(commands) == "ALL" {
			return true
		}
	}
	return false
}

func sshdSettings(ctx context.Context, x *exam) Finding {
	settings, err := x.Mac.SSHD.Effective(ctx)
	if macos.Refused(err) {
		return problem("the SSH server refuses its own settings: "+err.Error(),
			"no new connection is served; those that are open go on", "mend or remove the file it names, from a connection that is open or at the console, then: sudo sshd -t")
	}
	if err != nil {
		return unseen(err)
	}
	wrong := x.wrongSettings(settings)
	if len(wrong) > 0 {
		return problem(strings.Join(wrong, "; "),
			"passwords can be guessed from the internet, keys of others log in, or the fleet's key stops working", "run converge: its step sshd sets them")
	}
	if x.config != nil {
		return well("keys only, no root, and only the keys in %s", document.AuthorizedKeysFile)
	}
	return well("keys only, no root")
}

// wrongSettings compares with what converge sets. Before it has run, no keys of a fleet
// are there, and the vendor's have to be read, or nobody reaches the Mac.
func (x *exam) wrongSettings(got map[string]string) []string {
	wanted := []converge.SSHDSetting{
		{Keyword: "PasswordAuthentication", Value: "no"},
		{Keyword: "KbdInteractiveAuthentication", Value: "no"},
		{Keyword: "PermitRootLogin", Value: "no"},
		{Keyword: "UsePAM", Value: "yes"},
	}
	if x.config != nil {
		wanted = converge.SSHDSettings(x.config.Host.User)
	}
	var wrong []string
	for _, s := range wanted {
		if key := strings.ToLower(s.Keyword); got[key] != s.Value {
			wrong = append(wrong, fmt.Sprintf("%s is %q", key, got[key]))
		}
	}
	files := got["authorizedkeysfile"]
	if x.config == nil && files != document.AuthorizedKeysFile && !strings.Contains(files, "scw_authorized_keys") {
		wrong = append(wrong, "the vendor's key file is not read")
	}
	return wrong
}

func sshAnswers(ctx context.Context, x *exam) Finding {
	if err := x.Mac.SSHD.Answers(ctx); err != nil {
		return problem(err.Error(),
			"nobody reaches this Mac over SSH", "at the console, turn Remote Login off and on in System Settings, or: sudo launchctl bootout system/com.openssh.sshd; sudo launchctl bootstrap system /System/Library/LaunchDaemons/ssh.plist")
	}
	return well("it answers on this Mac's own port")
}

func authorizedKeys(ctx context.Context, x *exam) Finding {
	if data, err := x.read(document.AuthorizedKeysFile); err == nil {
		return x.fleetsKeys(ctx, string(data))
	}
	user := x.user(ctx)
	if user == "" {
		return unknown("whose keys to look at is not known: nobody is logged in at the console")
	}
	all, err := x.keysOf(user)
	if err != nil {
		return unseen(err)
	}
	unique := slices.Compact(slices.Sorted(slices.Values(all)))
	switch {
	case len(all) == 0:
		return problem("no key may log in as "+user,
			"the manager cannot reach this Mac", "paste the fleet's public key into ~/.ssh/scw_authorized_keys, or have the Mac reinstalled")
	case len(unique) < len(all):
		return warning(fmt.Sprintf("%d keys, some of them twice: %s", len(all), strings.Join(unique, ", ")),
			"a key that is taken away once still logs in", "remove the repeated lines")
	}
	return well("%d keys, check that you know each: %s", len(unique), strings.Join(unique, ", "))
}

// fleetsKeys judges the one file that counts on a Mac of a fleet.
func (x *exam) fleetsKeys(ctx context.Context, text string) Finding {
	all := fingerprints(text)
	if len(all) == 0 {
		return problem(document.AuthorizedKeysFile+" holds no key",
			"the manager cannot reach this Mac", "at the console, remove "+document.AuthorizedKeysFile+" and the file in /etc/ssh/sshd_config.d that names it, or have the Mac reinstalled")
	}
	ignored := 0
	if user := x.user(ctx); user != "" {
		others, _ := x.keysOf(user) // they do not count
		ignored = len(others)
	}
	return well("%d keys of the fleet and its profile, check that you know each: %s; %d in ~/.ssh do not count", len(all), strings.Join(all, ", "), ignored)
}

// keysOf are the fingerprints of the keys in the user's own files.
func (x *exam) keysOf(user string) ([]string, error) {
	var all []string
	for _, name := range []string{"authorized_keys", "scw_authorized_keys"} {
		data, err := x.read(path.Join("/Users", user, ".ssh", name))
		if absent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, fingerprints(string(data))...)
	}
	return all, nil
}

// screenSharing is wanted only where the profile says so.
func screenSharing(ctx context.Context, x *exam) Finding {
	_, loaded, err := x.printJob(ctx, converge.ScreenSharingLabel)
	if err != nil {
		return unseen(err)
	}
	var on []string
	if loaded {
		on = append(on, "Screen Sharing")
	}
	if !x.missing(ctx, converge.RemoteManagementFile) {
		on = append(on, "Remote Management")
	}
	wanted := x.config != nil && x.config.Mac.ScreenSharing
	switch {
	case wanted && !loaded:
		return warning("Screen Sharing is off, and the profile wants it",
			"nobody sees the screen from afar", "run converge: its step sharing turns it on")
	case wanted:
		return well("Screen Sharing is on, as the profile wants it")
	case len(on) == 0:
		return well("off")
	}
	return warning(strings.Join(on, " and ")+" is on",
		"whoever knows a user's password drives the screen, where the packet filter lets them", "run converge: its step sharing turns both off, some of it with the next boot")
}

// fingerprints are those of the keys in the text, as ssh-keygen -l shows them. What
// is no key is passed over, as sshd does.
func fingerprints(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		for i, field := range fields {
			if i+1 >= len(fields) || !strings.HasPrefix(field, "ssh-") && !strings.HasPrefix(field, "ecdsa-") && !strings.HasPrefix(field, "sk-") {
				continue
			}
			if blob, err := base64.StdEncoding.DecodeString(fields[i+1]); err == nil {
				sum := sha256.Sum256(blob)
				all = append(all, "SHA256:"+base64.RawStdEncoding.EncodeToString(sum[:]))
			}
			break
		}
	}
	return all
}

func listening(ctx context.Context, x *exam) Finding {
	text, err := x.output(ctx, "/usr/sbin/lsof", "-nP", "-iTCP", "-sTCP:LISTEN")
	if err != nil && strings.TrimSpace(text) == "" {
		return unseen(err)
	}
	open := listeners(text)
	if len(open) == 0 {
		return well("nobody listens but on this Mac itself")
	}
	return warning("reachable from outside, unless the packet filter says no: "+strings.Join(open, ", "),
		"each is a way in, also for guests where the firewall is not loaded", "check that you know each of them, and see the checks firewall and screen-sharing")
}

// listeners are "program:port" of lsof's lines, without those on loopback and SSH.
func listeners(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || fields[0] == "COMMAND" {
			continue
		}
		address := fields[8]
		i := strings.LastIndexByte(address, ':')
		if i < 0 || strings.HasPrefix(address, "127.") || strings.HasPrefix(address, "[::1]") || strings.HasPrefix(address, "localhost") {
			continue
		}
		if port := address[i+1:]; port != "22" {
			all = append(all, fields[0]+":"+port)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
