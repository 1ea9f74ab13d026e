package mac

import (
	"testing"
)

func (b *bench) registrations() int {
	b.t.Helper()
	r, err := b.Registrations()
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Count
}

func TestF09_WhatAppearsAmongTheDaemonsIsRegistered(t *testing.T) {
	b := startBench(t, nil)
	if b.registrations() != 0 {
		t.Fatal("a fresh Mac has registrations")
	}
	b.daemon("exec sleep 1000", keepAlive)
	await(t, "the property list to be seen", func() bool { return b.registrations() == 1 })
	b.root("launchctl bootstrap system " + plistPath)
	for range 3 {
		b.root("launchctl kickstart -k system/dev.test.job")
	}
	if got := b.registrations(); got != 1 {
		t.Errorf("%d registrations after kicks, want 1", got)
	}
	b.root("echo '<plist/>' >/Library/LaunchDaemons/tmp.plist; rm /Library/LaunchDaemons/tmp.plist; echo x >/Library/LaunchDaemons/notes.txt")
	await(t, "the temporary property list to be seen", func() bool { return b.registrations() == 2 })
	b.root("echo ' ' >>" + plistPath)
	await(t, "the changed property list to be seen", func() bool { return b.registrations() == 3 })
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the job to be loaded", func() bool { return b.job()["state"] == "running" })
	if got := b.registrations(); got != 3 {
		t.Errorf("%d registrations after a reboot, want 3", got)
	}
}

func TestF10_ALargeDatabaseKeepsDaemonsAway(t *testing.T) {
	b := startBench(t, func(o *Options) { o.Switches.DatabaseLimit = 20 << 10 })
	b.daemon("exec sleep 1000", keepAlive)
	b.root("cp " + plistPath + " /Library/LaunchDaemons/other.plist; launchctl bootstrap system " + plistPath)
	await(t, "both property lists to be seen", func() bool { return b.registrations() == 2 })
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.job()) != 0 {
		t.Error("a daemon was loaded past the limit")
	}
	b.root("rm /Library/LaunchDaemons/other.plist; mv /var/db/com.apple.backgroundtaskmanagement/BackgroundItems-v16.btm /tmp/")
	if err := b.Reboot(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "the daemon to be loaded once the database is gone", func() bool { return b.job()["state"] == "running" })
}

func TestF10_PastTheLimitNothingIsStartedAgain(t *testing.T) {
	b := startBench(t, func(o *Options) { o.Switches.RespawnLimit = 1 })
	b.daemon("exec sleep 1000", keepAlive)
	b.root("echo '<plist/>' >/Library/LaunchDaemons/tmp.plist; launchctl bootstrap system " + plistPath)
	await(t, "both property lists to be seen", func() bool { return b.registrations() == 2 })
	b.root("launchctl kill SIGKILL system/dev.test.job")
	await(t, "the job to stay down", func() bool { return b.job()["state"] == "not running" })
	b.root("launchctl kickstart system/dev.test.job")
	if got := b.job()["state"]; got != "running" {
		t.Errorf("after a kick: %q", got)
	}
}

func TestF11_TheLabelSettlesAndFaultsAreArmed(t *testing.T) {
	b := startBench(t, func(o *Options) { o.TimeScale = 0.1 }) // the label takes 30 s to settle: what is to come before has them
	b.daemon("exec sleep 1000", keepAlive)
	if err := b.ArmJobFault(t.Context(), JobFault{Label: "dev.test.job", Kind: "not spawned", Count: 1}); err != nil {
		t.Fatal(err)
	}
	b.root("launchctl bootstrap system " + plistPath)
	if got := b.job(); got["state"] != "not running" || got["runs"] != "0" {
		t.Errorf("bootstrap that spawns nothing: %v", got)
	}
	got := b.root(`launchctl bootout system/dev.test.job; launchctl bootstrap system ` + plistPath + ` 2>/dev/null; echo $?
		launchctl kickstart system/dev.test.job 2>/dev/null; echo $?`)
	if got.out != "5\n113\n" {
		t.Errorf("right after bootout: %+v", got)
	}
	await(t, "the label to settle", func() bool { return b.sh("launchctl print system/dev.test.job", "").rc == 113 })
	b.root("launchctl bootstrap system " + plistPath)
	if got := b.job()["state"]; got != "running" {
		t.Errorf("after the fault: %q", got)
	}
}
