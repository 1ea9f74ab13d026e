package fidelity

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/macfleet/macfleet/internal/converge"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
	"github.com/macfleet/macfleet/internal/remote"
)

// narrow is the rule that converge leaves, as it writes it on a Mac in memory.
func (w *world) narrow(build *remote.Build) string {
	w.t.Helper()
	mac := macostest.New()
	mac.Put(document.CurrentAgent, []byte(agent), macos.Attr{Mode: 0o755, Owner: "root", Group: "wheel"})
	_, err := converge.Run(w.t.Context(), converge.Options{Mac: mac.Interfaces(), Step: "sudo"}, desired(build))
	w.must(err)
	text, there := mac.Get("/etc/sudoers.d/m1-nopasswd")
	if !there {
		w.t.Fatal("converge leaves no rule")
	}
	return string(text)
}

// The verbs that a converged Mac is asked for, and nothing else, through real sudo.
func TestNarrowRuleAllowsTheVerbsAndNothingElse(t *testing.T) {
	w := fresh(t, "/usr/bin/zsh")
	build, err := remote.NewBuild([]byte(agent))
	w.must(err)
	// Two files: sudo goes by what a path names, so that one file under both names
	// may do what either name may.
	for _, name := range []string{"current", "next"} {
		slot := document.InstallDir + "/slot-of-" + name
		w.put(slot+"/tart-kubelet", agent, 0o755)
		w.must(os.Symlink(slot, document.InstallDir+"/"+name))
	}
	w.put("/etc/sudoers.d/m1-nopasswd", w.narrow(build), 0o440)
	if out, err := exec.Command("/usr/sbin/visudo", "-c").CombinedOutput(); err != nil {
		t.Fatalf("visudo: %v: %s", err, out)
	}
	for command, allowed := range map[string]bool{
		document.CurrentAgent + " converge --signed":      true,
		document.CurrentAgent + " converge --plan":        true,
		document.CurrentAgent + " upgrade":                true,
		document.CurrentAgent + " leave --signed":         true,
		document.CurrentAgent + " uninstall --signed":     true,
		document.NextAgent + " converge --signed":         true,
		document.CurrentAgent:                             false,
		document.CurrentAgent + " converge":               false,
		document.CurrentAgent + " leave":                  false,
		document.CurrentAgent + " uninstall":              false,
		document.NextAgent + " converge":                  false,
		document.CurrentAgent + " run":                    false,
		document.CurrentAgent + " converge --step sudo":   false,
		document.CurrentAgent + " converge --plan --step": false,
		document.NextAgent + " leave":                     false,
		".macfleet/staging/" + build.SHA256 + " converge": false,
		"-u nobody " + document.CurrentAgent + " leave":   false,
		"/bin/sh -c true":                                 false,
		"true":                                            false,
	} {
		w.put("/home/m1/.macfleet/staging/"+build.SHA256, agent, 0o755)
		_, stderr, _ := w.as("/usr/bin/zsh", "sudo -n "+command+" </dev/null", "")
		if refused := strings.Contains(stderr, "password is required"); refused == allowed {
			t.Errorf("%s: allowed %v, want %v: %s", command, !refused, allowed, stderr)
		}
	}
}
