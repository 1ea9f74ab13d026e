// Package wire holds what the parts of a simulated Mac say to each other: the
// host side (package mac) and pid 1 of the Mac over an inherited socket, and
// the shims and pid 1 over a socket inside the Mac. It holds messages and
// their framing only; what they mean is decided by the packages that use them.
package wire

import (
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/pf"
)

// The programs of a simulated Mac, in the folder that the host side builds them in: pid 1
// with tart, and the modelled commands.
const (
	Binary = "macsim"
	Shim   = "macshim"
)

// Paths that exist inside every simulated Mac and on no real one.
const (
	HiddenDir  = "/.macsim"
	SocketPath = HiddenDir + "/sock"
	BinaryPath = HiddenDir + "/" + Binary
	ShimPath   = HiddenDir + "/" + Shim
	TwinDir    = HiddenDir + "/twins"
	// UserlandDir holds the programs of the machine below, for the guests of the Mac.
	UserlandDir = HiddenDir + "/userland"
	// GuestPrograms is the directory in it of what guests have beside those.
	GuestPrograms = "extra"
)

// ScreenSharing is the label of macOS' own job that shares the screen, and
// ScreenSharingPlist defines it.
const (
	ScreenSharing      = "com.apple.screensharing"
	ScreenSharingPlist = "/System/Library/LaunchDaemons/com.apple.screensharing.plist"
)

// RemoteManagementFile is there while Remote Management is on.
const RemoteManagementFile = "/Library/Application Support/Apple/Remote Desktop/RemoteManagement.launchd"

// StateFile is where pid 1 keeps its state document in the state folder.
const StateFile = "state.json"

// Identities a simulated Mac knows, with the numbers a delivered Mac mini uses.
const (
	RootUID  = 0
	WheelGID = 0
	UserUID  = 501
	StaffGID = 20
)

// DefaultPath is the search path compiled into macOS' sshd.
const DefaultPath = "/usr/bin:/bin:/usr/sbin:/sbin"

// Facts are what the machine says of itself. The zero value of a field is
// replaced by a plausible one when the Mac starts.
type Facts struct {
	OSVersion    string `json:"osVersion,omitempty"`
	Build        string `json:"build,omitempty"`
	Model        string `json:"model,omitempty"`
	Serial       string `json:"serial,omitempty"`
	PlatformUUID string `json:"platformUUID,omitempty"`
	MemoryBytes  uint64 `json:"memoryBytes,omitempty"`
	CPUs         int    `json:"cpus,omitempty"`
	DiskBytes    uint64 `json:"diskBytes,omitempty"`
	DiskUsed     uint64 `json:"diskUsed,omitempty"`
	// VirtualMachine turns kern.hv_vmm_present on and kern.hv_support off.
	VirtualMachine bool `json:"virtualMachine,omitempty"`
	// FileVault is what fdesetup reports.
	FileVault bool `json:"fileVault,omitempty"`
	// FileVaultDeferredFor is whose next login or logout turns FileVault on.
	FileVaultDeferredFor string `json:"fileVaultDeferredFor,omitempty"`
	// NoConsole keeps a console session from coming up: /dev/console belongs to
	// root and the gui domain does not exist.
	NoConsole bool `json:"noConsole,omitempty"`
}

// Config is everything pid 1 needs to become a Mac. It travels over the
// inherited socket, never in arguments, since it holds the password.
type Config struct {
	Root     string `json:"root"`
	StateDir string `json:"stateDir"`
	TwinDir  string `json:"twinDir"`
	Programs string `json:"programs"`
	// GuestPrograms are files of the machine below that guests have in /usr/local/bin, and
	// at their root.
	GuestPrograms []string `json:"guestPrograms,omitempty"`
	Address       string   `json:"address"`
	Port          int      `json:"port"`
	Username      string   `json:"username"`
	Password      string   `json:"password"`
	// BootSession is the value of kern.bootsessionuuid for this boot.
	BootSession string    `json:"bootSession"`
	BootTime    time.Time `json:"bootTime"`
	Facts       Facts     `json:"facts"`
	Shell       Shell     `json:"shell"`
	// TimeScale divides every modelled delay; 0 means 1.
	TimeScale float64 `json:"timeScale,omitempty"`
	// LockAfter is the number of failed password verifications in one boot
	// after which the account is locked; 0 means never.
	LockAfter int `json:"lockAfter,omitempty"`
	// FewWatches: the folder of daemons is not watched.
	FewWatches bool `json:"fewWatches,omitempty"`
	// Switches as they are when the Mac boots.
	Switches Switches `json:"switches,omitzero"`
	// Beliefs are the packet filter's.
	Beliefs pf.Beliefs `json:"beliefs,omitzero"`
	Quirks  Quirks     `json:"quirks"`
}

// Scaled is d under the Mac's time-scale.
func (c Config) Scaled(d time.Duration) time.Duration {
	if c.TimeScale <= 0 {
		return d
	}
	return time.Duration(float64(d) / c.TimeScale)
}

// Shell is the real shell that serves as /bin/sh, with every file it needs to
// run, each to be found at the same path inside the Mac.
type Shell struct {
	Path  string   `json:"path"`
	Files []string `json:"files,omitempty"`
}

// Execution is one run of a shim, or of a command that no shim models.
type Execution struct {
	Time time.Time `json:"time"`
	Argv []string  `json:"argv"`
	UID  int       `json:"uid"`
	RC   int       `json:"rc"`
	// StdinSHA256 is the digest of what was read from stdin, empty when
	// nothing was read. A password read by sudo is never part of it.
	StdinSHA256 string `json:"stdinSHA256,omitempty"`
	// Unmodelled says why the simulator could not do what was asked.
	Unmodelled string `json:"unmodelled,omitempty"`
}

// Event is what pid 1 tells the host side.
type Event struct {
	Kind      EventKind  `json:"kind"`
	Execution *Execution `json:"execution,omitempty"`
	// Text is the reason of a failure, a line of log, or empty.
	Text string `json:"text,omitempty"`
	// Errno is the system's error behind a failure, if there is one; Refused
	// says that it was the kernel refusing what a namespace needs.
	Errno   int  `json:"errno,omitempty"`
	Refused bool `json:"refused,omitempty"`
	// Seq answers the order of the same number.
	Seq int      `json:"seq,omitempty"`
	PF  *PFReply `json:"pf,omitempty"`
	// Output and RC are those of an ordered script.
	Output string `json:"output,omitempty"`
	RC     int    `json:"rc,omitempty"`
}

// EventKind names an Event.
type EventKind string

// The events.
const (
	EventReady    EventKind = "ready"    // SSH answers and the boot sequence is done
	EventFailed   EventKind = "failed"   // the Mac could not be set up; Text says why
	EventExecuted EventKind = "executed" // a command ended
	EventVerified EventKind = "verified" // a password was checked
	EventReboot   EventKind = "reboot"   // shutdown -r was asked for inside
	EventHalt     EventKind = "halt"     // shutdown -h was asked for inside
	EventLog      EventKind = "log"      // a line for whoever debugs
	EventDone     EventKind = "done"     // an order was carried out
)

// Order is what the host side asks of pid 1; each is answered by EventDone.
type Order struct {
	Seq   int    `json:"seq"`
	Facts *Facts `json:"facts,omitempty"`
	Fault *Fault `json:"fault,omitempty"`
	// Switches are set, JobFault is armed, FullDisk is made.
	Switches *Switches `json:"switches,omitempty"`
	JobFault *JobFault `json:"jobFault,omitempty"`
	FullDisk *FullDisk `json:"fullDisk,omitempty"`
	// Script is run by /bin/sh as root, as if somebody sat at the machine.
	Script string `json:"script,omitempty"`
	// PF is about the packet filter, and answered in the event's PF.
	PF *PFOrder `json:"pf,omitempty"`
}

// Fault makes a shim fail instead of doing its work.
type Fault struct {
	// Command is the name of the shim, such as "visudo" or "launchctl".
	Command string `json:"command"`
	// Argument, when set, must be one of the arguments.
	Argument string `json:"argument,omitempty"`
	// Count is how often the fault fires; 0 means once.
	Count int `json:"count,omitempty"`
	// RC is the exit code; Stderr is printed before it.
	RC     int    `json:"rc"`
	Stderr string `json:"stderr,omitempty"`
}
