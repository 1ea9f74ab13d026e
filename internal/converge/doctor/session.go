package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/macfleet/macfleet/internal/converge"
	"github.com/macfleet/macfleet/internal/converge/session"
)

func consoleSession(ctx context.Context, x *exam) Finding {
	owner, err := x.Mac.Session.Owner(ctx)
	if err != nil {
		return unseen(err)
	}
	missing := Finding{
		Verdict: Problem, Consequence: "macOS guests do not start: virtualization refuses without a session of the same user",
		Remedy: "run converge with the user's password, or log in once over VNC",
	}
	if session.Nobody(owner) {
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
	loginwindow, err := x.Mac.Defaults.Values(ctx, session.LoginwindowDomain)
	if err != nil {
		return unseen(err)
	}
	user, found := loginwindow[session.AutoLoginUser]
	bad := Finding{
		Verdict: Problem, Consequence: "after the next reboot nobody is logged in, and guests do not start",
		Remedy: "run converge with the user's password: its step session sets it up",
	}
	if !found {
		bad.Evidence = "no user logs in by itself"
		return bad
	}
	data, err := x.read(session.PasswordFile)
	if err != nil && !absent(err) {
		return unseen(err)
	}
	switch state := session.JudgePassword(data); {
	case absent(err):
		bad.Evidence = session.PasswordFile + " is missing"
		return bad
	case !state.Usable():
		// Never more than this is said of what is in the file.
		bad.Evidence = fmt.Sprintf("the password in %s is %s", session.PasswordFile, state)
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
		return warning(file+" is missing",
			"newer guests may not start: macOS keeps a key for them there", "log in once at the console, or over VNC")
	}
	return well("there is one; whether it is unlocked only its session can tell")
}

func power(ctx context.Context, x *exam) Finding {
	wrong, err := converge.PowerDiffers(ctx, x.Mac.Power)
	if err != nil {
		return unseen(err)
	}
	if len(wrong) == 0 {
		return well("it never sleeps, and starts again after a power cut")
	}
	f := Finding{
		Verdict: Warning, Evidence: strings.Join(wrong, "; "), Consequence: "it may not come back by itself, or comes back late",
		Remedy: "sudo pmset -a sleep 0 displaysleep 0 disksleep 0 autorestart 1 womp 1 powernap 0",
	}
	if slices.ContainsFunc(wrong, func(s string) bool { return strings.HasPrefix(s, "sleep ") }) {
		f.Verdict, f.Consequence = Problem, "a Mac that sleeps is a node that is gone"
	}
	return f
}

func updates(ctx context.Context, x *exam) Finding {
	on, err := converge.InstallersDiffer(ctx, x.Mac.Defaults)
	if err != nil {
		return unseen(err)
	}
	if len(on) == 0 {
		return well("macOS installs nothing by itself")
	}
	return warning("not turned off: "+strings.Join(on, ", "),
		"it may restart for an update, and wait at the login window", "run converge: its step updates turns them off")
}
