package accept

import (
	"context"
	"fmt"
	"strings"
)

// loginLooks is how often the console is looked at after a boot, a rebootPoll apart: macOS
// may take most of a minute to log in, and hostd helps after a minute and a half.
const loginLooks = 12

// login waits for the session that the boot itself should bring, before converge would
// bring one. Where none comes, it says whether loginwindow is there to bring it.
func login(ctx context.Context, t *trial) error {
	if !t.desired.Mac.AutoLogin {
		return nil
	}
	began, seen := t.Now(), []string{"no"}
	for range loginLooks {
		owner, _, _, err := t.execute(ctx, run{line: "stat -f %Su /dev/console"}.shellLine(false), "")
		if err != nil {
			return err
		}
		if strings.TrimSpace(owner) == t.Target.User {
			seen = []string{"yes"}
			break
		}
		if err := t.Pause(ctx, rebootPoll); err != nil {
			return err
		}
	}
	if seen[0] == "no" {
		runs, err := runsLoginwindow(ctx, t)
		if err != nil {
			return err
		}
		seen = append(seen, "loginwindow runs: "+yesNo(runs))
	}
	t.add(Row{
		ID: "login", Asked: "Does the boot log the user in by itself?", Question: "R11", Seen: seen, Exact: true,
		Seconds: t.Now().Sub(began).Seconds(),
	})
	return nil
}

// runsLoginwindow asks launchd.
func runsLoginwindow(ctx context.Context, t *trial) (bool, error) {
	out, complaints, code, err := t.execute(ctx, run{line: "launchctl print system/com.apple.loginwindow"}.shellLine(false), "")
	if err != nil {
		return false, err
	}
	if code != 0 {
		return false, fmt.Errorf("asking launchd for loginwindow: exit %d: %s", code, strings.Join(t.hide.lines(complaints), "; "))
	}
	for line := range strings.Lines(out) {
		if state, found := strings.CutPrefix(strings.TrimSpace(line), "state = "); found {
			return state == "running", nil
		}
	}
	return false, nil
}
