package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/podtest"
	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/shim"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestExitOf(t *testing.T) {
	begin := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	now := begin.Add(time.Hour)
	exit := &shim.Exit{Code: 1, Started: begin, Ended: now}
	short := &shim.Exit{Code: 1, Started: begin, Ended: begin.Add(time.Second)}
	killed := &shim.Exit{Code: -1, Signal: 15, Started: begin, Ended: now}
	report := int32(9)
	command := func(id string, o shim.Outcome, code int) CommandProgress {
		return CommandProgress{ID: id, Begun: o != shim.Unreachable, Exit: &shim.CommandEnd{ID: id, Outcome: o, Code: code, Begun: begin, Ended: now}}
	}
	type want struct {
		Code      int32
		Reason    string
		Init      string
		Unstarted bool
	}
	for _, c := range []struct {
		name string
		in   ExitEvidence
		want want
	}{
		{"a VM shuts down", ExitEvidence{Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}}, want{0, "Completed", "", false}},
		{"and reports", ExitEvidence{Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}, Report: &report}, want{9, "Error", "", false}},
		{"a report does not mend a crash", ExitEvidence{Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}, Report: &report}, want{1, "Error", "", false}},
		{"a VM is stopped", ExitEvidence{Exit: exit, Outcome: vm.Outcome{Kind: vm.Stopped}}, want{137, "Error", "", false}},
		{"a VM is killed", ExitEvidence{Exit: &shim.Exit{Signal: 9, Ended: now}, Outcome: vm.Outcome{Kind: vm.Killed}}, want{137, "Error", "", false}},
		{"a Mac that goes down kills a VM", ExitEvidence{Exit: killed, Outcome: vm.Outcome{Kind: vm.Killed}, BootSession: "next"}, want{137, "ContainerStatusUnknown", "", false}},
		{"it kills one with its command", ExitEvidence{Progress: command("main", shim.Lost, 0), Exit: killed, Outcome: vm.Outcome{Kind: vm.Killed}, BootSession: "next"}, want{137, "ContainerStatusUnknown", "", false}},
		{"it kills one whose command had failed", ExitEvidence{Progress: command("main", shim.Exited, 3), Exit: killed, Outcome: vm.Outcome{Kind: vm.Killed}, BootSession: "next"}, want{3, "Error", "", false}},
		{"it kills one before init", ExitEvidence{Progress: CommandProgress{ID: "init-0"}, Exit: killed, Outcome: vm.Outcome{Kind: vm.Killed}, BootSession: "next"}, want{128, "RunContainerError", "", true}},
		{"a VM shut down before a reboot", ExitEvidence{Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}, BootSession: "next"}, want{0, "Completed", "", false}},
		{"a VM does not start", ExitEvidence{Exit: short, Outcome: vm.Outcome{Kind: vm.NotStarted}}, want{128, "RunContainerError", "", true}},
		{"a VM has no session", ExitEvidence{Exit: short, Outcome: vm.Outcome{Kind: vm.NotStarted, NoSession: true}}, want{128, "NoConsoleSession", "", true}},
		{"tart fails after an hour", ExitEvidence{Exit: exit, Outcome: vm.Outcome{Kind: vm.NotStarted}}, want{1, "Error", "", false}},
		{"tart fails, and the clock was set back", ExitEvidence{Exit: &shim.Exit{Code: 1, Started: now, Ended: begin}, Outcome: vm.Outcome{Kind: vm.NotStarted}}, want{1, "Error", "", false}},
		{"no session, before init", ExitEvidence{Progress: CommandProgress{ID: "init-0"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.NotStarted, NoSession: true}}, want{128, "NoConsoleSession", "", true}},
		{"a crash before init", ExitEvidence{Progress: CommandProgress{ID: "init-0"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{128, "RunContainerError", "", true}},
		{"a crash after init", ExitEvidence{Progress: CommandProgress{ID: "main"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{1, "Error", "", false}},
		{"nobody knows, before init", ExitEvidence{Progress: CommandProgress{ID: "init-0"}, Why: "?"}, want{137, "ContainerStatusUnknown", "init-0", false}},
		{"the licence", ExitEvidence{Exit: exit, Outcome: vm.Outcome{Kind: vm.Limited}}, want{1, "LicenseLimitReached", "", true}},
		{"nobody knows", ExitEvidence{Why: "?"}, want{137, "ContainerStatusUnknown", "", false}},
		{"main ended", ExitEvidence{Progress: command("main", shim.Exited, 0)}, want{0, "Completed", "", false}},
		{"main ended, then the VM crashed", ExitEvidence{Progress: command("main", shim.Exited, 0), Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{0, "Completed", "", false}},
		{"main failed", ExitEvidence{Progress: command("main", shim.Exited, 3)}, want{3, "Error", "", false}},
		{"main could not start", ExitEvidence{Progress: command("main", shim.NotExecuted, 0)}, want{128, "StartError", "", false}},
		{"main was cut off by a crash", ExitEvidence{Progress: command("main", shim.Lost, 0), Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{1, "Error", "", false}},
		{"main was cut off by a shutdown", ExitEvidence{Progress: command("main", shim.Lost, 0), Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}}, want{137, "Error", "", false}},
		{"main was cut off, nobody knows", ExitEvidence{Progress: command("main", shim.Lost, 0)}, want{137, "ContainerStatusUnknown", "", false}},
		{"the VM ended before main", ExitEvidence{Progress: CommandProgress{ID: "main"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.ShutDown}}, want{137, "Error", "", false}},
		{"the licence, before main", ExitEvidence{Progress: CommandProgress{ID: "init-0"}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Limited}}, want{128, "LicenseLimitReached", "", true}},
		{"an init container failed", ExitEvidence{Progress: command("init-0", shim.Exited, 3)}, want{3, "Error", "init-0", false}},
		{"a crash while it ran", ExitEvidence{Progress: CommandProgress{ID: "init-0", Begun: true}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{1, "Error", "init-0", false}},
		{"the mounts failed", ExitEvidence{Progress: command("setup", shim.Exited, 1)}, want{1, "CreateContainerConfigError", "init-0", true}},
		{"a mount can never work", ExitEvidence{Progress: command("setup", shim.Exited, volume.NeverMounted)}, want{128, "StartError", "init-0", false}},
		{"a crash while they are made", ExitEvidence{Progress: CommandProgress{ID: "setup", Begun: true}, Exit: exit, Outcome: vm.Outcome{Kind: vm.Crashed}}, want{128, "RunContainerError", "", true}},
	} {
		p := podtest.Job(corev1.RestartPolicyNever, "one")
		e := ExitOf(p, Record{UID: "u", Inits: make([]ContainerRecord, 1)}, c.in, now)
		if d := cmp.Diff(c.want, want{e.Code, e.Reason, e.Of, e.Unstarted}); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
}

func TestProgressIsTheFirstCommandThatHasNotSucceeded(t *testing.T) {
	good := &shim.CommandEnd{Outcome: shim.Exited}
	for name, c := range map[string]struct {
		ends map[string]*shim.CommandEnd
		want string
	}{
		"nothing yet":    {nil, "setup"},
		"set up":         {map[string]*shim.CommandEnd{"setup": good}, "init-0"},
		"init failed":    {map[string]*shim.CommandEnd{"setup": good, "init-0": {Outcome: shim.Exited, Code: 1}, "main": good}, "init-0"},
		"all has passed": {map[string]*shim.CommandEnd{"setup": good, "init-0": good, "main": good}, "main"},
	} {
		s, err := ProgressOf(CommandIDs(podtest.Job(corev1.RestartPolicyNever, "one"), true), func(id string) (bool, *shim.CommandEnd, error) {
			return c.ends[id] != nil, c.ends[id], nil
		})
		if err != nil || s.ID != c.want {
			t.Errorf("%s: %q, want %q, err %v", name, s.ID, c.want, err)
		}
	}
}
