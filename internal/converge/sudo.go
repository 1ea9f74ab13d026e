package converge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const sudoersDir = "/etc/sudoers.d"

var sudoersAttr = macos.Attr{Mode: 0o440, Owner: root, Group: wheel}

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
	document.CurrentAgent + " uninstall --signed",
	document.NextAgent + " converge --signed",
}

// anything stands for all that the shrunk rule no longer allows.
const anything = "/usr/bin/true"

func sudoersFile(user string) string { return sudoersDir + "/" + user + "-nopasswd" }

// sudo shrinks what the console user may do as root without a password, from
// everything to the agent's own verbs. It is the last act of a run: all before it
// may need more.
func (t *target) sudo() step {
	user := t.desired.Host.User
	note := ""
	return step{
		name: "sudo",
		about: "Shrinks " + sudoersFile("<user>") + " from everything to the agent's own verbs: " +
			"doctor and `converge --plan`, which change nothing, and converge, upgrade, leave and uninstall as the fleet's key has signed them. " +
			"Without `--signed` they take the password.",
		undo: "As an administrator with the password: `sudo visudo -f " + sudoersFile("<user>") + "`, or remove the file.",
		note: func() string { return note },
		check: func(ctx context.Context) ([]string, error) {
			all, err := t.differing(ctx, t.sudoRule())
			if err != nil || len(all) > 0 {
				return all, err
			}
			note, err = t.sudoHolds(ctx, user)
			return nil, err
		},
		act: t.shrinkSudo,
		prove: func(ctx context.Context) error {
			var err error
			note, err = t.sudoHolds(ctx, user)
			return err
		},
	}
}

func (t *target) sudoRule() file {
	user := t.desired.Host.User
	text := "# What " + user + " may do as root without a password. Written by macfleet.\n" +
		user + " ALL=(root) NOPASSWD: " + strings.Join(sudoVerbs, ", ") + "\n"
	return file{sudoersFile(user), []byte(text), sudoersAttr}
}

// shrinkSudo replaces the broad rule, and puts it back when the new one leaves
// no way in.
func (t *target) shrinkSudo(ctx context.Context) error {
	if err := t.sudoersSound(ctx); err != nil {
		return err
	}
	rule := t.sudoRule()
	staged := rule
	staged.path = document.StateDir + "/sudoers.new"
	if err := write(ctx, t.Mac.Files, staged); err != nil {
		return err
	}
	if err := t.Mac.Sudo.Check(ctx, staged.path); err != nil {
		return fail(document.Bug, "the sudo rule is not valid: %w", err)
	}
	broad, there := read(t.Mac.Files, rule.path)
	if err := t.Mac.Files.Replace(ctx, rule.path, macos.Content{
		Data: strings.NewReader(string(rule.data)), Attr: rule.attr,
		// sudo reads every file of the folder whose name has no dot in it.
		Stage: document.StateDir,
	}); err != nil {
		return err
	}
	if _, err := t.sudoHolds(ctx, t.desired.Host.User); err != nil {
		if there == nil {
			err = errors.Join(err, write(ctx, t.Mac.Files, file{rule.path, broad, sudoersAttr}))
		}
		return err
	}
	return t.remove(staged.path)
}

// sudoersSound fails when some sudoers file is broken: sudo may then refuse
// everything, and taking the broad rule away would close the door for good.
func (t *target) sudoersSound(ctx context.Context) error {
	names, err := t.Mac.Files.List(sudoersDir)
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
		err := t.Mac.Sudo.Check(ctx, name)
		var broken *macos.SudoersError
		if errors.As(err, &broken) {
			return fail(document.Human, "%s is broken: mend it or remove it: %w", name, broken)
		}
		if err != nil {
			return fmt.Errorf("checking %s: %w", name, err)
		}
	}
	return nil
}

// sudoHolds asks sudo itself. What it returns is what a person should know though
// nothing failed.
func (t *target) sudoHolds(ctx context.Context, user string) (string, error) {
	// One verb speaks for all: they are in one rule. This one changes nothing, and
	// says so in a way that sudo does not when it is given no document.
	exit, err := t.Mac.Sudo.Try(ctx, user, document.CurrentAgent, "converge", "--plan")
	if err != nil {
		return "", fmt.Errorf("trying sudo: %w", err)
	}
	if exit != document.ExitUsage {
		return "", fail(document.Human, "sudo does not let %s run `%s converge --plan` without a password: a later rule in %s or %s "+
			"overrides %s; remove that rule", user, document.CurrentAgent, sudoersDir, macos.SudoersFile, sudoersFile(user))
	}
	exit, err = t.Mac.Sudo.Try(ctx, user, anything)
	if err != nil {
		return "", fmt.Errorf("trying sudo: %w", err)
	}
	if exit == 0 {
		return "another sudo rule still lets " + user + " run anything as root without a password", nil
	}
	return "", nil
}
