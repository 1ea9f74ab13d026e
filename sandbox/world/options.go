package world

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/macfleet/macfleet/sandbox/cluster"
	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// What the sandbox's chart is rendered with (values.yaml, hack/generate.sh).
const (
	// Namespace of the manager and of the fleet's objects.
	Namespace = "macfleet-system"
	// Fleet is the MachineDeployment that the sandbox scales.
	Fleet = "macfleet-builders"
	// Zone of all simulated servers.
	Zone = "fr-par-1"
	// PoolPrefix starts the names of servers that may be adopted.
	PoolPrefix = "tuist-pool-"
	// ServerType and OS of the pool's servers.
	ServerType = "M2-L"
	OS         = "macos-tahoe-26.0"
)

const (
	managerServiceAccount = "macfleet-manager"

	defaultHosts = 6
	// maxHosts keeps a sandbox within its block of loopback addresses.
	maxHosts = 200
	// defaultTimeScale turns the vendor's minutes into seconds.
	defaultTimeScale = 60
)

// Binaries are the programs a sandbox runs. Build makes them.
type Binaries struct {
	Cluster cluster.Binaries
	// Manager is the provider, for Linux.
	Manager string
	// AgentDir holds tart-kubelet for darwin/arm64, or tart-kubelet.gz: what the manager uploads.
	AgentDir string
	// AgentTwin is the same agent for Linux: what a simulated Mac runs in its place.
	AgentTwin string
	// Mac is the folder of a simulated Mac's programs.
	Mac string
}

// guestPrograms are what guests of simulated Macs have beside the programs of this machine.
func (b Binaries) guestPrograms() []string {
	if b.Cluster.Agnhost == "" {
		return nil
	}
	return []string{b.Cluster.Agnhost}
}

// Options say what to start. Dir and Binaries are required.
type Options struct {
	// Dir takes everything the sandbox writes; an existing one is reused.
	Dir      string
	Binaries Binaries
	// Hosts is how many delivered servers are in the pool. Default 6.
	Hosts int
	// TimeScale divides the vendor's delays: at 60 a reinstall of 17 minutes takes
	// 17 seconds. Default 60.
	TimeScale float64
	// Managers is how many manager processes run. Default 1.
	Managers int
	// StandIns makes what stands behind the servers in place of simulated Macs, of which a machine
	// runs some hundreds at most: it answers SSH at each server's address, on the given port.
	// Hosts has no limit then.
	StandIns func(sshPort int) scaleway.Hardware
	// ManagerArgs are further flags of the managers, which win over the chart's.
	ManagerArgs []string
	// ManagerEnv are further variables of the managers' environment, as NAME=value.
	ManagerEnv []string
	// ControllerManagerArgs are further flags of kube-controller-manager, which win
	// over the sandbox's own.
	ControllerManagerArgs []string
	// Beside is a running sandbox whose vendor and Macs this one shares: another management
	// cluster of the same project, which has macfleet and no fleet. It is stopped before that
	// one. Hosts and TimeScale are that one's.
	Beside *World
	// Bare leaves out all that is macfleet's: no chart, no SSH key, no server in the pool. That
	// is what somebody has who begins to install it; RunInstalled follows.
	Bare bool
	// MetricsServer runs Kubernetes' metrics-server, of which kubectl top asks.
	MetricsServer bool
	// Port of the API server; 0 takes a free one.
	Port int
	// AuditLog is a file for the API server's audit log; empty writes none.
	AuditLog string
	// Progress is told what is being done, one sentence at a time.
	Progress func(string)
	// Logger gets the sandbox's own log lines, and tells of managers that ended by
	// themselves and were started again. Default: none.
	Logger *slog.Logger
}

// ErrTooManyHosts refuses a number of hosts that a sandbox can't address.
var ErrTooManyHosts = fmt.Errorf("a sandbox has 1 to %d hosts", maxHosts)

func (o *Options) complete() error {
	if o.Dir == "" || o.Binaries.Manager == "" {
		return errors.New("a sandbox needs Dir and Binaries")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("resolving the sandbox's directory: %w", err)
	}
	o.Dir = dir
	if o.Hosts == 0 {
		o.Hosts = defaultHosts
	}
	if o.Hosts < 0 || o.Hosts > maxHosts && o.StandIns == nil {
		return ErrTooManyHosts
	}
	if o.TimeScale == 0 {
		o.TimeScale = defaultTimeScale
	}
	if o.Managers == 0 {
		o.Managers = 1
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
