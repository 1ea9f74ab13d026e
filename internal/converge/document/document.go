// Package document is what the manager and a Mac must agree on byte for byte:
// the desired document that converge reads, the report it writes, the agent's
// configuration file, and the revision that says whether a Mac is up to date.
// It does nothing else: building documents is the manager's, applying them the
// Mac's.
package document

import "time"

// Schema versions. A reader refuses what it does not know.
const (
	DesiredSchema    = "macfleet.dev/desired/v1"
	ReportSchema     = "macfleet.dev/report/v1"
	ConfigSchema     = "macfleet.dev/agent-config/v1"
	diskMarkerSchema = "macfleet.dev/journal/v1"
)

// Paths on a Mac. They are part of the agreement: the manager calls the
// installed agent by them.
const (
	// InstallDir holds one folder a build: <InstallDir>/<sha256>/tart-kubelet, and
	// the link "current".
	InstallDir = "/usr/local/libexec/macfleet"
	// CurrentAgent is the installed agent.
	CurrentAgent = InstallDir + "/current/tart-kubelet"
	// AgentLink is where people look for it.
	AgentLink = "/usr/local/bin/tart-kubelet"
	// ConfigDir holds the agent's configuration and credentials.
	ConfigDir = "/etc/macfleet"
	// ConfigFile is the AgentConfig.
	ConfigFile = ConfigDir + "/agent.json"
	// BootstrapKubeconfig holds the one-hour token, until it is used.
	BootstrapKubeconfig = ConfigDir + "/bootstrap-kubeconfig"
	// JoinPermitFile is the JoinPermit.
	JoinPermitFile = ConfigDir + "/join-permit.json"
	// StateDir holds the disk marker and the last report, for root only.
	StateDir = "/var/db/macfleet"
	// DiskMarkerFile is the DiskMarker: it marks the install epoch of the disk.
	DiskMarkerFile = StateDir + "/journal.json"
	// RestartFile names the last requested restart that was made.
	RestartFile = StateDir + "/restarted"
	// ReportFile is the last Report.
	ReportFile = StateDir + "/report.json"
	// AgentStateDir holds what the agent keeps: certificates, used permits, Pods.
	// It belongs to the console user.
	AgentStateDir = "/var/db/macfleet-agent"
	// RAMDiskName is the place in it where the agent mounts what is secret for Pods.
	RAMDiskName = "secrets"
	// AgentRAMDisk is the whole path.
	AgentRAMDisk = AgentStateDir + "/" + RAMDiskName
	// AgentCertDir holds the client certificates and keys of the agent.
	AgentCertDir = AgentStateDir + "/identity"
	// AgentCertFile holds the certificate in use and its key.
	AgentCertFile = AgentCertDir + "/node-client-current.pem"
	// AgentServerFile says where the API server is: {"server", "ca"}.
	AgentServerFile = AgentCertDir + "/server.json"
	// LogDir holds the agent's logs. It is root's, who rotates them by name.
	LogDir = "/var/log/macfleet"
	// HealthSocket is the agent's local socket: one JSON Health per connection.
	HealthSocket = AgentStateDir + "/health.sock"
	// StagingDir, below the SSH user's home, takes uploaded agents, each named by
	// its SHA-256.
	StagingDir = ".macfleet/staging"
	// AgentLabel is the launchd label of the agent, in the system domain.
	AgentLabel = "dev.macfleet.tart-kubelet"
	// AgentPlist is the agent's launchd job.
	AgentPlist = "/Library/LaunchDaemons/" + AgentLabel + ".plist"
	// NextAgent is a build that upgrade has verified and installed, and
	// that converge has yet to make the current one.
	NextAgent = InstallDir + "/next/tart-kubelet"
	// UpgradeKeyFile holds the public key that instructions and new builds must be
	// signed with, as PEM; root owns it.
	UpgradeKeyFile = StateDir + "/upgrade-key.pem"
	// CounterFile holds the counter of the last instruction that the Mac took.
	CounterFile = StateDir + "/counter.json"
	// HostdLabel and HostdPlist are the root half of the agent.
	HostdLabel = "dev.macfleet.hostd"
	HostdPlist = "/Library/LaunchDaemons/" + HostdLabel + ".plist"
	// RunDir holds local sockets; a boot clears it, hostd makes it.
	RunDir = "/var/run/macfleet"
	// HostdSocket takes one JSON HostdRequest per connection and answers with one
	// HostdAnswer.
	HostdSocket = RunDir + "/hostd.sock"
	// AuthorizedKeysFile holds the SSH keys that may log in; root owns it. It is beside
	// the settings that name it, so that what takes one away takes the other.
	AuthorizedKeysFile = "/etc/ssh/macfleet_authorized_keys"
	// GuestVolume is the mount point of the volume for guests, where there is one.
	GuestVolume = "/Volumes/macfleet"
	// PodVolumesDir holds what Pods keep on the Mac, where there is such a volume, so
	// that they fill it and not the Mac's own. It belongs to the console user.
	PodVolumesDir = GuestVolume + "/volumes"
)

// Desired is what a Mac should be. Agent, Node, Mac, Images, Pods and Kubelet are the same
// for all Macs of a profile and make the revision; the rest is this Mac's, or this run's, and
// is left out of it.
type Desired struct {
	Schema string `json:"schema"`
	Host   Host   `json:"host"`
	Agent  Agent  `json:"agent"`
	Node   Node   `json:"node"`
	Mac    Mac    `json:"mac"`
	Images Images `json:"images,omitzero"`
	Pods   Pods   `json:"pods,omitzero"`
	// Kubelet is the API that the Mac serves, the same for all Macs of a cluster and
	// a profile.
	Kubelet Kubelet `json:"kubelet,omitzero"`
	// Join is present when the Mac should (re-)join. It is secret.
	Join *Join `json:"join,omitempty"`
	// Secrets are what only some runs need and carry.
	Secrets *Secrets `json:"secrets,omitempty"`
	// UpgradeKey is the public half (ed25519, 32 bytes) of the key that signs
	// instructions and new builds for the fleet. The first converge of an epoch
	// installs it; later ones leave what is installed.
	UpgradeKey []byte `json:"upgradeKey,omitempty"`
	// SSHKeys are the public halves of the fleet's SSH keys, a line of authorized_keys
	// each: the one in use, and while it is replaced the one before. With
	// Mac.AuthorizedKeys they are all that may log in. A document without them can only
	// be for single steps.
	SSHKeys []string `json:"sshKeys,omitempty"`
	// Restart names one restart of the agent that is requested; the Mac makes it
	// unless it has made the one of this name already. Empty: none is.
	Restart string `json:"restart,omitempty"`
}

// Host is what is this Mac's alone.
type Host struct {
	// Name is the infra machine's: the Mac's host name and the Node's name.
	Name string `json:"name"`
	// ProviderID is scw-applesilicon://<zone>/<serverID>.
	ProviderID string `json:"providerID"`
	// Epoch is the install epoch; the disk marker on the Mac names it.
	Epoch int64 `json:"epoch"`
	// User is the console user, who runs the agent and its guests.
	User string `json:"user"`
	// Address is where the API server and people reach the Mac.
	Address string `json:"address"`
	// Zone and ServerType become well-known labels of the Node.
	Zone       string `json:"zone"`
	ServerType string `json:"serverType"`
	// Fleet is shown as label tuist.dev/fleet of the Node.
	Fleet string `json:"fleet,omitempty"`
	// KubernetesVersion is the Machine's spec.version, which the Node shows as its
	// kubelet's. Empty: it names none.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// ManagedFrom is the address from which the manager reaches this Mac, as the Mac
	// sees it, so that no firewall shuts the manager out. Empty: it is not known. It
	// belongs to one run, and the Mac does not keep it.
	ManagedFrom string `json:"managedFrom,omitempty"`
	// TakeOver: the first system of this kind has this Mac, and what it installed is
	// replaced while its guests run on.
	TakeOver bool `json:"takeOver,omitempty"`
	// SSHPort is the manager's port of the Mac's SSH server, where that is not 22: the
	// firewall leaves both open.
	SSHPort int `json:"sshPort,omitempty"`
}

// Agent is the build to run.
type Agent struct {
	// SHA256 of the uploaded darwin/arm64 file, lower-case hex.
	SHA256 string `json:"sha256"`
	// Version for people, e.g. v0.1.0.
	Version string `json:"version"`
}

// Node is how the Mac looks as a Node, the same for a whole fleet.
type Node struct {
	Labels map[string]string `json:"labels,omitempty"`
	// Taints at registration. An empty list means none; a missing one leaves the
	// choice to the agent.
	Taints []Taint `json:"taints"`
	// MaxVMs is how many guests run at once: 1 or 2.
	MaxVMs int `json:"maxVMs"`
}

// Taint of a Node.
type Taint struct {
	Key    string `json:"key"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect"`
}

// Join is what a Mac needs to become a Node, once.
type Join struct {
	// Server is the API server's URL, as a Mac reaches it.
	Server string `json:"server"`
	// CA is the API server's certificate authority, PEM.
	CA []byte `json:"ca"`
	// Token is a one-hour bootstrap token.
	Token string `json:"token"`
	// Permit allows one creation of the Node.
	Permit JoinPermit `json:"permit"`
}

// JoinPermit allows the agent to create its Node once. The agent records the id
// as used before it creates; a Node that was deleted comes back only with a new
// permit.
type JoinPermit struct {
	ID       string    `json:"id"`
	NotAfter time.Time `json:"notAfter"`
}

// DiskMarker is what the first converge of an install epoch leaves on the disk. A
// disk that holds the marker of another epoch, or of another Machine, was not
// wiped.
type DiskMarker struct {
	Schema string `json:"schema"`
	Epoch  int64  `json:"epoch"`
	// Name of the Machine that holds the Mac in this epoch.
	Name string `json:"name"`
	// ProviderID of the Mac.
	ProviderID string `json:"providerID"`
	// User is the console user that the Mac was set up for. Another one takes a
	// reinstall: what the first owns is in places that root trusts.
	User    string    `json:"user"`
	Created time.Time `json:"created"`
}

// AgentConfig is the file that `tart-kubelet run` and `tart-kubelet hostd` read;
// converge writes it.
type AgentConfig struct {
	Schema string `json:"schema"`
	Host   Host   `json:"host"`
	Node   Node   `json:"node"`
	// Mac is what hostd keeps true between two runs of converge.
	Mac    Mac    `json:"mac"`
	Images Images `json:"images,omitzero"`
	Pods   Pods   `json:"pods,omitzero"`
	// Kubelet is left out where it says nothing, so that a build that knows nothing of
	// it reads the file.
	Kubelet Kubelet `json:"kubelet,omitzero"`
	// Agent is the build this configuration was written for.
	Agent Agent `json:"agent"`
}

// Health is what the agent answers on HealthSocket.
type Health struct {
	// Build is the SHA-256 in the path of the program that the agent was started from.
	Build string `json:"build"`
	// ConfigHash is the SHA-256 of the configuration file it read.
	ConfigHash string `json:"configHash"`
	PID        int    `json:"pid"`
}

// Class says what a failed step asks for.
type Class string

// The classes of failure.
const (
	// Retry: transient; try again with back-off.
	Retry Class = "retry"
	// Wait: something outside must happen first, e.g. another password.
	Wait Class = "wait"
	// Reboot: volatile state of the Mac is suspected.
	Reboot Class = "reboot"
	// Reinstall: the disk is damaged or dirty.
	Reinstall Class = "reinstall"
	// Human: nobody but a person can mend it.
	Human Class = "human"
	// Bug: ours.
	Bug Class = "bug"
)

// Exit codes of converge and leave.
const (
	ExitUnchanged = 0
	ExitChanged   = 10
	ExitRetry     = 20
	ExitWait      = 21
	ExitReboot    = 22
	ExitReinstall = 23
	ExitHuman     = 24
	ExitUsage     = 64
	ExitBug       = 70
)

// Outcome of a step.
type Outcome string

// The outcomes of a step.
const (
	Unchanged Outcome = "unchanged"
	Changed   Outcome = "changed"
	Failed    Outcome = "failed"
	// Planned: it would change, but this run only plans.
	Planned Outcome = "planned"
	// NotRun: an earlier step failed.
	NotRun Outcome = "not run"
)

// Verbs that end in a Report.
const (
	VerbConverge  = "converge"
	VerbLeave     = "leave"
	VerbUpgrade   = "upgrade"
	VerbUninstall = "uninstall"
)

// NotWiped begins the detail of the step journal where it finds what an owner or another
// system left. The step fails of other things, too, as of a full disk.
const NotWiped = "not wiped: "

// Report is what converge and leave say at the end: one JSON line.
type Report struct {
	Schema      string       `json:"schema"`
	Verb        string       `json:"verb"`
	Build       string       `json:"build"`
	Epoch       int64        `json:"epoch"`
	BootSession string       `json:"bootSession"`
	Revision    string       `json:"revision"`
	Started     time.Time    `json:"started"`
	Finished    time.Time    `json:"finished"`
	Steps       []StepReport `json:"steps"`
	// Rebooting: the Mac reboots now, and another run must follow.
	Rebooting bool `json:"rebooting,omitempty"`
	// RolledBack is the build that failed and was replaced by the one before it.
	RolledBack string `json:"rolledBack,omitempty"`
	// Counter of the last instruction that the Mac took; set where it refused one
	// with a counter that is not above it.
	Counter int64 `json:"counter,omitempty"`
	Exit    int   `json:"exit"`
}

// StepReport is the story of one step.
type StepReport struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	// Class is set when the step failed.
	Class Class `json:"class,omitempty"`
	// Detail says why the step failed, or what a planned step would touch. It
	// holds no secret. It begins with NotWiped where that is why.
	Detail string `json:"detail,omitempty"`
	Millis int64  `json:"ms"`
}
