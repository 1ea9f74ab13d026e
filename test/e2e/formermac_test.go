package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/sandbox/mac/session"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// The first system, as it leaves a Mac.
const (
	formerImage = "ghcr.io/cirruslabs/macos-tahoe-xcode:26"
	formerLabel = "dev.tuist.tart-kubelet"
	// formerAgent stands for its node agent: it starts one guest, and leaves it alone. The
	// real one starts guests in sessions of their own; a script has none to give, so that
	// the job's AbandonProcessGroup keeps them. What it says to the API server is
	// formerHeartbeat's.
	formerAgent = `#!/bin/sh
vm=$(cat /var/lib/tart-userdata/vm)
if [ -n "$vm" ] && ! kill -0 "$(cat /var/lib/tart-userdata/pid 2>/dev/null)" 2>/dev/null; then
  tart pull %[1]s >>/var/log/tart-vms/guest.log 2>&1
  tart clone %[1]s "$vm" >>/var/log/tart-vms/guest.log 2>&1
  tart run --no-graphics "$vm" >>/var/log/tart-vms/guest.log 2>&1 </dev/null &
  echo $! >/var/lib/tart-userdata/pid
fi
while :; do sleep 1; done
`
	formerPlist = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>
<key>Label</key><string>dev.tuist.tart-kubelet</string>
<key>UserName</key><string>m1</string>
<key>ProgramArguments</key><array><string>/usr/local/bin/tart-kubelet</string><string>--node-name=%s</string><string>--kubeconfig=/etc/tart-kubelet/kubeconfig</string></array>
<key>RunAtLoad</key><true/><key>KeepAlive</key><true/><key>ThrottleInterval</key><integer>10</integer><key>AbandonProcessGroup</key><true/>
<key>EnvironmentVariables</key><dict><key>HOME</key><string>/Users/m1</string><key>PATH</key><string>/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin</string></dict>
</dict></plist>
`
)

// formerFiles puts what the first system installs on the disk of a Mac.
func (f *fleet) formerFiles(server scaleway.Server, name, vm string) {
	f.Helper()
	put := func(path, text string, mode os.FileMode) {
		full := filepath.Join(f.macOf(server.ID).Root(), path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			f.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), mode); err != nil {
			f.Fatal(err)
		}
	}
	put("private/etc/kcpassword", string(session.Encode(server.Password)), 0o600)
	put("private/etc/sudoers.d/m1-nopasswd", "m1 ALL=(ALL) NOPASSWD: ALL\n", 0o440)
	put("private/etc/tart-kubelet/kubeconfig", "a token without an end", 0o600)
	put("private/etc/pf.anchors/tuist.runners", "block in quick\n", 0o644)
	put("private/var/lib/tart-userdata/vm", vm, 0o644)
	put("private/var/log/tart-vms/guest.log", "", 0o644)
	put("usr/local/bin/tart-kubelet", fmt.Sprintf(formerAgent, formerImage), 0o755)
	put("Library/LaunchDaemons/"+formerLabel+".plist", fmt.Sprintf(formerPlist, name), 0o644)
	f.rootOf(server.ID, "chown -R m1:staff /var/lib/tart-userdata /var/log/tart-vms /etc/tart-kubelet && chown root:wheel /usr/local/bin/tart-kubelet /etc/sudoers.d/m1-nopasswd /etc/kcpassword /Library/LaunchDaemons/"+formerLabel+".plist")
}

// formerBringUp is the first system's bootstrap of a Mac, and its agent's first
// guest, where a name is given for one.
func (f *fleet) formerBringUp(server scaleway.Server, name, vm string) {
	f.Helper()
	f.formerFiles(server, name, vm)
	f.rootOf(server.ID, "defaults write /Library/Preferences/com.apple.loginwindow autoLoginUser m1 && killall loginwindow")
	f.await("a session of m1", func() (string, bool) {
		owner := strings.TrimSpace(f.rootOf(server.ID, "stat -f %Su /dev/console"))
		return owner, owner == "m1"
	})
	f.rootOf(server.ID, "launchctl bootstrap system /Library/LaunchDaemons/"+formerLabel+".plist")
	if vm != "" {
		f.await("the first system's guest to run", func() (string, bool) {
			seen := f.rootOf(server.ID, "cat /var/lib/tart-userdata/pid /var/log/tart-vms/guest.log; sudo -u m1 /bin/sh -c 'HOME=/Users/m1 /opt/homebrew/bin/tart list' 2>&1 || true")
			return seen, strings.Contains(seen, "running")
		})
	}
}

// formerGuest is the process id of its guest; empty when it does not run.
func (f *fleet) formerGuest(id string) string {
	f.Helper()
	return strings.TrimSpace(f.rootOf(id, `pid=$(cat /var/lib/tart-userdata/pid 2>/dev/null); if [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null; then echo "$pid"; fi`))
}

// formerRuns reports whether launchd runs the first system's agent.
func (f *fleet) formerRuns(id string) bool {
	f.Helper()
	return strings.Contains(f.rootOf(id, formerPrint), "state = running")
}

const formerPrint = "launchctl print system/" + formerLabel + " 2>/dev/null || true"

// formerHeartbeat is what its agents say to the API server, as long as they run: the
// servers by the names of their Nodes.
func (f *fleet) formerHeartbeat(servers map[string]scaleway.Server) {
	ctx, cancel := context.WithCancel(f.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			for name, server := range servers {
				f.beat(ctx, name, server.ID)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(2 * time.Second):
			}
		}
	}()
	f.Cleanup(func() { cancel(); <-done })
}

// beat says once that a Node is Ready, where the first system's agent runs. A later
// beat makes up for one that fails.
func (f *fleet) beat(ctx context.Context, name, id string) {
	machine, found := f.world.Mac(id)
	if !found {
		return
	}
	out, err := machine.AsRoot(ctx, formerPrint)
	if err != nil || !strings.Contains(out, "state = running") {
		return
	}
	node := &corev1.Node{}
	if f.client.Get(ctx, client.ObjectKey{Name: name}, node) != nil {
		return
	}
	base := node.DeepCopy()
	now := metav1.Now()
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "TartKubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}
	if c := nodeCondition(*node, corev1.NodeReady); c.Status == corev1.ConditionTrue {
		ready.LastTransitionTime = node.CreationTimestamp
	}
	node.Status.Conditions = []corev1.NodeCondition{ready}
	node.Status.NodeInfo.KubeletVersion = formerVersion
	_ = f.client.Status().Patch(ctx, node, client.MergeFrom(base))
}

const formerVersion = "tart-kubelet-v0"
