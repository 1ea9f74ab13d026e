package doctor

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge"
)

const (
	loginwindowDomain = "/Library/Preferences/com.apple.loginwindow"
	updateDomain      = "/Library/Preferences/com.apple.SoftwareUpdate"
	kcpassword        = "/etc/kcpassword"
)

func session(ctx context.Context, x *exam) Finding {
	owner, err := x.Mac.Session.Owner(ctx)
	if err != nil {
		return unseen(err)
	}
	missing := Finding{
		Verdict: Problem, Consequence: "macOS guests do not start: virtualization refuses without a session of the same user",
		Remedy: "run converge with the user's password, or log in once over VNC",
	}
	if owner == "root" || owner == "" {
		missing.Evidence = "nobody is logged in at the console"
		return missing
	}
	aqua, err := x.Mac.Session.Aqua(ctx, owner)
	if err != nil {
		return unseen(err)
	}
	if !aqua {
		missing.Evidence = owner + " owns the console and has no graphical session"
		return missing
	}
	if want := x.user(ctx); want != "" && want != owner {
		missing.Evidence = "the session is " + owner + "'s, not " + want + "'s"
		return missing
	}
	return well("%s has a graphical session", owner)
}

func autoLogin(ctx context.Context, x *exam) Finding {
	user, found, err := x.Mac.Defaults.Read(ctx, loginwindowDomain, "autoLoginUser")
	if err != nil {
		return unseen(err)
	}
	bad := Finding{
		Verdict: Problem, Consequence: "after the next reboot nobody is logged in, and guests do not start",
		Remedy: "run converge with the user's password: its step session sets it up",
	}
	if !found {
		bad.Evidence = "no user logs in by itself"
		return bad
	}
	data, err := x.read(kcpassword)
	if err != nil && !absent(err) {
		return unseen(err)
	}
	switch state := converge.JudgePassword(data); {
	case absent(err):
		bad.Evidence = kcpassword + " is missing"
		return bad
	case !state.Usable():
		// Never more than this is said of what is in the file.
		bad.Evidence = fmt.Sprintf("the password in %s is %s", kcpassword, state)
		return bad
	}
	return well("%s logs in by itself, and the password is not sealed", user)
}

func keychain(ctx context.Context, x *exam) Finding {
	user := x.user(ctx)
	if user == "" {
		return unknown("nobody is logged in at the console")
	}
	file := path.Join("/Users", user, "Library/Keychains/login.keychain-db")
	if x.missing(ctx, file) {
		return Finding{
			Verdict: Warning, Evidence: file + " is missing",
			Consequence: "newer guests may not start: macOS keeps a key for them there", Remedy: "log in once at the console, or over VNC",
		}
	}
	return well("there is one; whether it is unlocked only its session can tell")
}

func power(ctx context.Context, x *exam) Finding {
	got, err := x.Mac.Power.Settings(ctx)
	if err != nil {
		return unseen(err)
	}
	want := map[string]string{"sleep": "0", "displaysleep": "0", "disksleep": "0", "autorestart": "1"}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, known := got[name]; value != want[name] && (known || name == "sleep") {
			wrong = append(wrong, fmt.Sprintf("%s is %q", name, value))
		}
	}
	if len(wrong) == 0 {
		return well("it never sleeps, and starts again after a power cut")
	}
	f := Finding{
		Verdict: Warning, Evidence: strings.Join(wrong, "; "), Consequence: "it may not come back by itself, or comes back late",
		Remedy: "sudo pmset -a sleep 0 displaysleep 0 disksleep 0 autorestart 1",
	}
	if got["sleep"] != "0" {
		f.Verdict, f.Consequence = Problem, "a Mac that sleeps is a node that is gone"
	}
	return f
}

func updates(ctx context.Context, x *exam) Finding {
	var on []string
	for _, key := range []string{"AutomaticDownload", "AutomaticallyInstallMacOSUpdates", "CriticalUpdateInstall"} {
		value, found, err := x.Mac.Defaults.Read(ctx, updateDomain, key)
		if err != nil {
			return unseen(err)
		}
		if !found || value != "0" {
			on = append(on, key)
		}
	}
	if len(on) == 0 {
		return well("macOS installs nothing by itself")
	}
	return Finding{
		Verdict: Warning, Evidence: "not turned off: " + strings.Join(on, ", "),
		Consequence: "it may restart for an update, and wait at the login window", Remedy: "run converge: its step updates turns them off",
	}
}
