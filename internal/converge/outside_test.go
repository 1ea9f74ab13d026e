package converge

import (
	"context"
	"encoding/json"
	"path"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/step"
	"github.com/macfleet/macfleet/internal/converge/takeover"
)

// What is on a Mac, in the words of others: macOS's, the first system's, and of the
// files that a Mac keeps from one build to the next.
const (
	root, staff = "root", "staff"

	kcpasswordFile    = "/etc/kcpassword"
	sealedPrefix      = "\x41\xfa\x37\x42\xbe\xd9\xb9\xd4"
	loginwindowDomain = "/Library/Preferences/com.apple.loginwindow"
	autoLoginUser     = "autoLoginUser"
	pfConf            = "/etc/pf.conf"
	guestsULA         = "fc00::/7"

	daemonsDir       = "/Library/LaunchDaemons"
	formerAgentLabel = "dev.tuist.tart-kubelet"
	formerAgentDir   = "/etc/tart-kubelet"

	lastGoodFile       = document.StateDir + "/proved.json"
	lastGoodConfigFile = document.StateDir + "/proved-config.json"
	badBuildsFile      = document.StateDir + "/bad-builds.json"
)

// How long things take, and how often they are tried.
const (
	busyTries       = 5
	watchFor        = 12 * time.Second
	sessionTimeout  = 30 * time.Second
	restartCooldown = 10 * time.Minute
)

var kcpasswordAttr = step.RootAttr(0o600)

const formerFirewallLabel = "dev.tuist.pfctl-runners"

func formerLabels() []string {
	return []string{formerFirewallLabel, "dev.tuist.node-exporter", "dev.tuist.log-shipper", "dev.tuist.host-sensors"}
}

func formerFirewallFiles() []string {
	return []string{
		"/etc/pf.anchors/tuist.runners", "/etc/pf.anchors/tuist.sshguard", "/usr/local/bin/tuist-pf-vmnat",
		"/usr/local/bin/tuist-pf-sshguard",
	}
}

func formerFiles() []string {
	return append(formerFirewallFiles(),
		"/usr/local/bin/tuist-node-exporter-wrapper", "/usr/local/bin/tuist-log-shipper", "/usr/local/bin/tuist-host-sensors")
}

// launchdJob is one of our jobs.
type launchdJob struct{ label, plist, pending, socket, request string }

func ourJobs() []launchdJob {
	return []launchdJob{
		{document.HostdLabel, document.HostdPlist, document.StateDir + "/hostd-restart-owed", document.HostdSocket, `{"verb":"status"}` + "\n"},
		{document.AgentLabel, document.AgentPlist, document.StateDir + "/restart-owed", document.HealthSocket, ""},
	}
}

func installDir(build string) string  { return path.Join(document.InstallDir, build) }
func programFile(build string) string { return path.Join(installDir(build), "tart-kubelet") }
func incoming(build string) string    { return path.Join(installDir(build), "incoming") }

// env is what the steps are made of.
func (f *fixture) env() *step.Env { return f.options().env(f.desired, &document.Report{}) }

func (f *fixture) firewallStep() step.Step {
	e := f.env()
	return firewall.Step(e, takeover.PacketFilter{Env: e})
}

// health is what the process of a job says of itself.
func (f *fixture) health(j launchdJob) document.Health {
	f.t.Helper()
	data, err := f.mac.Interfaces().Sockets.Ask(context.Background(), j.socket, []byte(j.request))
	if err != nil {
		f.t.Errorf("%s: %v", j.label, err)
		return document.Health{}
	}
	var a struct {
		document.Health
		Hostd document.Health `json:"health"`
	}
	if err := json.Unmarshal(data, &a); err != nil {
		f.t.Errorf("%s: %v", j.label, err)
	}
	if j.label == document.HostdLabel {
		return a.Hostd
	}
	return a.Health
}

// failures are those that are remembered of builds.
func (f *fixture) failures() map[string]any {
	f.t.Helper()
	all := map[string]any{}
	if data, there := f.mac.Get(badBuildsFile); there {
		if err := json.Unmarshal(data, &all); err != nil {
			f.t.Error(err)
		}
	}
	return all
}
