package mac

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const plistPath = "/Library/LaunchDaemons/dev.test.job.plist"

// plist describes a job that runs a script as the user.
func plist(script, extra string) string {
	script = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(script)
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>dev.test.job</string>
<key>ProgramArguments</key><array><string>/bin/sh</string><string>-c</string><string>%s</string></array>
<key>UserName</key><string>m1</string>
<key>StandardErrorPath</key><string>/private/var/log/job.log</string>
%s
</dict></plist>`, script, extra)
}

const keepAlive = "<key>RunAtLoad</key><true/><key>KeepAlive</key><true/>"

// daemon writes a property list from outside, as if root had.
func (b *bench) daemon(script, extra string) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.Root(), plistPath), []byte(plist(script, extra)), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

var field = regexp.MustCompile(`(?m)^\t(state|pid|runs|last exit code|last terminating signal) = (.*)$`)

// job reads the fields of launchctl print.
func (b *bench) job() map[string]string {
	b.t.Helper()
	fields := map[string]string{}
	for _, m := range field.FindAllStringSubmatch(b.sh("launchctl print system/dev.test.job", "").out, -1) {
		fields[m[1]] = m[2]
	}
	return fields
}

func TestLaunchdLife(t *testing.T) {
	b := startBench(t, nil)
	b.daemon(`id -un >&2; echo "$HOME $XPC_SERVICE_NAME" >&2; exec sleep 1000`, keepAlive+"<key>ExitTimeOut</key><integer>3000</integer>") // a minute to end
	b.grant()
	launchctl := func(args string) outcome { return b.sh("sudo -n launchctl "+args, "") }
	if got := launchctl("print system/dev.test.job"); got.rc != 113 {
		t.Errorf("print before: %+v, want 113", got)
	}
	if got := b.sh("launchctl bootstrap system "+plistPath, ""); got.rc == 0 {
		t.Errorf("bootstrap as the user: %+v", got)
	}
	if got := launchctl("bootstrap system " + plistPath); got.rc != 0 {
		t.Fatalf("bootstrap: %+v", got)
	}
	if got := launchctl("bootstrap system " + plistPath); got.rc != 37 {
		t.Errorf("bootstrap again: %+v, want 37", got)
	}
	first := b.job()
	if first["state"] != "running" || first["pid"] == "" || first["last exit code"] != "(never exited)" {
		t.Errorf("after bootstrap: %v", first)
	}
	said := func(runs int) bool {
		return b.ok("cat /private/var/log/job.log; stat -f %Su /private/var/log/job.log") == strings.Repeat("m1\n/Users/m1 dev.test.job\n", runs)+"m1"
	}
	await(t, "the first run to write its log", func() bool { return said(1) })
	if got := launchctl("kickstart -kp system/dev.test.job"); got.rc != 0 || !strings.HasPrefix(got.out, "service spawned with pid: ") {
		t.Errorf("kickstart: %+v", got)
	}
	second := b.job()
	if second["state"] != "running" || second["pid"] == first["pid"] || second["runs"] != "2" || second["last terminating signal"] != "Terminated: 15" {
		t.Errorf("after kickstart: %v", second)
	}
	await(t, "the log of both runs", func() bool { return said(2) })
	if got := b.sh("sudo -n /bin/sh -c 'kill -9 "+second["pid"]+"'", ""); got.rc != 0 {
		t.Fatalf("killing the job: %+v", got)
	}
	await(t, "the killed job to come back", func() bool { j := b.job(); return j["state"] == "running" && j["runs"] == "3" })
	// On a busy machine the job takes longer to end than launchd waits for it.
	if got := launchctl("bootout system/dev.test.job"); got.rc != 0 && got.rc != 36 {
		t.Errorf("bootout: %+v", got)
	}
	await(t, "the job to be unknown", func() bool { return launchctl("bootout system/dev.test.job").rc == 3 })
}

func TestLaunchdSettlesAfterBootout(t *testing.T) {
	b := startBench(t, func(o *Options) { o.TimeScale = 0.1 }) // the label takes 30 s to settle: what is to come before has them
	b.daemon("exec sleep 1000", keepAlive)
	b.grant()
	got := b.ok("sudo -n /bin/sh -c 'l=" + plistPath + "; launchctl bootstrap system $l; launchctl bootout system/dev.test.job; launchctl bootstrap system $l 2>/dev/null; echo $?; launchctl kickstart system/dev.test.job 2>/dev/null; echo $?'")
	if got != "5\n113" {
		t.Errorf("right after bootout: %q, want 5 and 113", got)
	}
	await(t, "the label to settle", func() bool { return b.sh("launchctl print system/dev.test.job", "").rc == 113 })
	b.ok("sudo -n launchctl bootstrap system " + plistPath)
}

func TestLaunchdRefusesAndRemembers(t *testing.T) {
	b := startBench(t, nil)
	b.daemon("exit 3", "<key>RunAtLoad</key><true/>")
	got := b.root(`l=` + plistPath + `
		try() { "$@" >/dev/null 2>&1; echo $?; }
		chmod 0666 $l; try launchctl bootstrap system $l
		chmod 0644 $l; chown m1:staff $l; try launchctl bootstrap system $l
		chown root:wheel $l; try launchctl bootstrap gui/501 $l
		launchctl disable system/dev.test.job; try launchctl bootstrap system $l`)
	if got.out != "5\n5\n125\n119\n" {
		t.Errorf("refusals: %+v", got)
	}
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.job()) != 0 {
		t.Error("a disabled job was loaded at boot")
	}
	b.root("launchctl enable system/dev.test.job")
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the job to run once at boot", func() bool {
		j := b.job()
		return j["last exit code"] == "3" && j["state"] == "not running" && j["runs"] == "1"
	})
}

func TestLaunchdAbandonsProcessGroups(t *testing.T) {
	b := startBench(t, nil)
	b.daemon("sleep 1000 & echo $! >/Users/m1/child; exit 0", "<key>RunAtLoad</key><true/><key>AbandonProcessGroup</key><true/>")
	b.root("launchctl bootstrap system " + plistPath)
	await(t, "the job to end", func() bool { return b.job()["last exit code"] == "0" })
	b.ok("kill -0 $(cat child)")
}
