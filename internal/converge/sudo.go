package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

const sudoersDir = "/etc/sudoers.d"

var sudoersAttr = step.RootAttr(0o440)

// sudoVerbs are the command lines that stay open to the console user: what changes
// nothing, and what does only what the fleet's key has signed. sudo compares
// arguments exactly, so that a verb without --signed asks for a password.
var sudoVerbs = []string{
	document.CurrentAgent + " converge --signed",
	document.CurrentAgent + " converge --plan",
	document.CurrentAgent + " upgrade",
	document.CurrentAgent + " leave --signed",
	document.CurrentAgent + " doctor",
	document.CurrentAgent + " doctor --json",
	document.CurrentAgent + " report",
	document.CurrentAgent + " uninstall --signed",
	document.NextAgent + " converge --signed",
}

// anything stands for all that the shrunk rule no longer allows.
const anything = "/usr/bin/true"

func sudoersFile(user string) string { return sudoersDir + "/" + user + "-nopasswd" }

// sudo shrinks what the console user may do as root without a password, from
// everything to the agent's own verbs. It is the last act of a run: all before it
// may need more.
type sudo struct{ *step.Env }

func (x sudo) step() step.Step {
	user := x.Desired.Host.User
	note := ""
	return step.Step{
		Name: "sudo",
		About: "Shrinks " + sudoersFile("<user>") + " from everything to the agent's own verbs: " +
			"doctor, report and `converge --plan`, which change nothing, and converge, upgrade, leave and uninstall as the fleet's key has signed them. " +
			"Without `--signed` they take the password.",
		Undo: "As an administrator with the password: `sudo visudo -f " + sudoersFile("<user>") + "`, or remove the file.",
		Note: func() string { return note },
		Check: func(ctx context.Context) ([]string, error) {
			all, err := x.Differing(ctx, x.sudoRule())
			if err != nil || len(all) > 0 {
				return all, err
			}
			note, err = x.sudoHolds(ctx, user)
			return nil, err
		},
		Act: x.shrinkSudo,
		Prove: func(ctx context.Context) error {
			var err error
			note, err = x.sudoHolds(ctx, user)
			return err
		},
	}
}

func (x sudo) sudoRule() step.File {
	user := x.Desired.Host.User
	text := "# What " + user + " may do as root without a password. Written by macfleet.\n" +
		user + " ALL=(root) NOPASSWD: " + strings.Join(sudoVerbs, ", ") + "\n"
	return step.File{Path: sudoersFile(user), Data: []byte(text), Attr: sudoersAttr}
}

// shrinkSudo replaces the broad rule, and puts it back when the new one leaves
// no way in.
func (x sudo) shrinkSudo(ctx context.Context) error {
	if err := x.sudoersSound(ctx); err != nil {
		return err
	}
	rule := x.sudoRule()
	staged := rule
	staged.Path = document.StateDir + "/sudoers.new"
	if err := step.Write(ctx, x.Mac.Files, staged); err != nil {
		return err
	}
	if err := x.Mac.Sudo.Check(ctx, staged.Path); err != nil {
		return step.Fail(document.Bug, "the sudo rule is not valid: %w", err)
	}
	broad, there := step.Read(x.Mac.Files, rule.Path)
	if err := x.Mac.Files.Replace(ctx, rule.Path, macos.Content{
		Data: strings.NewReader(string(rule.Data)), Attr: rule.Attr,
		// sudo reads every file of the folder whose name has no dot in it.
		Stage: document.StateDir,
	}); err != nil {
		return err
	}
	if _, err := x.sudoHolds(ctx, x.Desired.Host.User); err != nil {
		if there == nil {
			err = errors.Join(err, step.Write(ctx, x.Mac.Files, step.File{Path: rule.Path, Data: broad, Attr: sudoersAttr}))
		}
		return err
	}
	return x.Remove(staged.Path)
}

// sudoersSound fails when some sudoers file is broken: sudo may then refuse
// everything, and taking the broad rule away would close the door for good.
func (x sudo) sudoersSound(ctx context.Context) error {
	names, err := x.Mac.Files.List(sudoersDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listing %s: %w", sudoersDir, err)
	}
	all := []string{macos.SudoersFile}
	for _, name := range names {
		// sudo passes over these: what packages and editors leave behind.
		if !strings.Contains(name, ".") && !strings.HasSuffix(name, "~") {
			all = append(all, sudoersDir+"/"+name)
		}
	}
	for _, name := range all {
		err := x.Mac.Sudo.Check(ctx, name)
		if broken, ok := errors.AsType[*macos.SudoersError](err); ok {
			return step.Fail(document.Human, "%s is broken: mend it or remove it: %w", name, broken)
		}
		if err != nil {
			return fmt.Errorf("checking %s: %w", name, err)
		}
	}
	return nil
}

// sudoHolds asks sudo itself. What it returns is what a person should know though
// nothing failed.
func (x sudo) sudoHolds(ctx context.Context, user string) (string, error) {
	// One verb speaks for all: they are in one rule. This one changes nothing, and
	// says so in a way that sudo does not when it is given no document.
	exit, err := x.Mac.Sudo.Try(ctx, user, document.CurrentAgent, "converge", "--plan")
	if err != nil {
		return "", fmt.Errorf("trying sudo: %w", err)
	}
	if exit != document.ExitUsage {
		return "", step.Fail(document.Human, "sudo does not let %s run `%s converge --plan` without a password: a later rule in %s or %s "+
			"overrides %s; remove that rule", user, document.CurrentAgent, sudoersDir, macos.SudoersFile, sudoersFile(user))
	}
	exit, err = x.Mac.Sudo.Try(ctx, user, anything)
	if err != nil {
		return "", fmt.Errorf("trying sudo: %w", err)
	}
	if exit == 0 {
		return "another sudo rule still lets " + user + " run anything as root without a password", nil
	}
	return "", nil
}

// remove takes the rule away.
func (x sudo) remove(context.Context) error {
	user := x.Desired.Host.User
	if user == "" {
		return step.Fail(document.Human, "nothing says who the console user is: remove %s by hand", sudoersFile("<user>"))
	}
	return x.Remove(sudoersFile(user))
}
