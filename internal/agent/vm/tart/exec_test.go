package tart

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/agent/vm/vmtest"
)

// What tart says in its own words, and what it means.
func TestKindOf(t *testing.T) {
	for _, c := range []struct {
		code int
		says string
		want error
	}{
		{1, `Error: UnexpectedHTTPStatusCode(when: "pulling manifest", code: 401, details: "")`, vm.ErrAuth},
		{1, `Error: UnexpectedHTTPStatusCode(when: "pulling manifest", code: 403, details: "")`, vm.ErrAuth},
		{1, `Error: AuthFailed(why: "received unexpected HTTP status code 403 while retrieving an authentication token", details: "{\"errors\":[{\"code\":\"DENIED\"}]}")`, vm.ErrAuth},
		{1, `Error: AuthFailed(why: "got HTTP 401, but WWW-Authenticate header is missing", details: "")`, vm.ErrAuth},
		{1, `Error: UnexpectedHTTPStatusCode(when: "pulling manifest", code: 404, details: "")`, vm.ErrImageNotFound},
		{1, `Error: UnexpectedHTTPStatusCode(when: "pulling blob", code: 500, details: "")`, nil},
		{1, `VM "tk-a-0" is running`, vm.ErrRunning},
		{1, "new disk size of 20 GB should be larger than the current disk size of 50 GB", errBigger},
		{1, "failed to parse remote name: mismatched input (character 21)", vm.ErrInvalidReference},
		{2, `the specified VM "tk-a-0" does not exist`, vm.ErrNotFound},
		{1, `the specified VM "tk-a-0" does not exist`, nil},
		{2, `VM "tk-a-0" is not running`, nil},
	} {
		if got := kindOf(c.code, "pulling manifest...\n"+c.says+"\n"); !errors.Is(got, c.want) {
			t.Errorf("%d, %s: %v, want %v", c.code, c.says, got, c.want)
		}
	}
}

// Images go when this host says so, not when tart finds that it needs room.
func TestTartEvictsNothingByItself(t *testing.T) {
	f := newFake(t, nil)
	vmtest.Create(t, f.subject(), "tk-a-0")
	for _, verb := range []string{"pull", "clone", "set"} {
		_, envs := f.calls(t, verb)
		if len(envs) == 0 {
			t.Errorf("no %s", verb)
		}
		for _, env := range envs {
			if !slices.Contains(env, "TART_NO_AUTO_PRUNE") {
				t.Errorf("%s with the environment %v", verb, env)
			}
		}
	}
	c, err := f.RunCommand("tk-a-0", vm.RunOptions{})
	if err != nil || !slices.Contains(c.Env, "TART_NO_AUTO_PRUNE=1") {
		t.Errorf("run with the environment %v, %v", c.Env, err)
	}
}

// A signal to the agent's group, as launchd sends it, must not end tart.
func TestACommandHasAGroupOfItsOwn(t *testing.T) {
	info, err := scripted(t, `ps -o pgid= -p $$; echo $$`).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Fields(info.Version); len(said) != 2 || said[0] != said[1] {
		t.Errorf("group and process are %q", said)
	}
}

// A clone that goes on after its agent was killed has the lock, so that the next agent
// takes half of it neither for a machine nor for nothing.
func TestACloneHasTheLockAfterItsAgentIsGone(t *testing.T) {
	f := newFake(t, nil)
	if _, err := f.Pull(t.Context(), fakeImage, vm.PullOptions{}); err != nil {
		t.Fatal(err)
	}
	end := filepath.Join(t.TempDir(), "end")
	f.path = wrapped(t, f.path, `case "$1" in clone) (until [ -e "`+end+`" ]; do sleep 0.01; done) >/dev/null 2>&1 & exit 1;; esac`)
	if err := f.Create(t.Context(), "tk-a-0", fakeImage, vm.Shape{}); err == nil {
		t.Fatal("a clone that fails is none")
	}
	late, stop := context.WithCancel(t.Context())
	stop()
	if lock, err := f.lockCreate(late); err == nil {
		_ = lock.Close()
		t.Error("the lock is free while something of the clone lives")
	}
	if err := os.WriteFile(end, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lock, err := f.lockCreate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = lock.Close()
}

// What is a machine's name is no image's: tart would delete the machine.
func TestAMachineIsNoImageToRemove(t *testing.T) {
	f := newFake(t, nil)
	vmtest.Create(t, f.subject(), "tk-a-0")
	if err := f.RemoveImage(t.Context(), "tk-a-0"); !errors.Is(err, vm.ErrInvalidReference) {
		t.Errorf("%v", err)
	}
	if _, err := f.Machine(t.Context(), "tk-a-0"); err != nil {
		t.Error(err)
	}
}
