// Package macos is macOS as converge sees it: a few small interfaces, and their
// implementation by the commands and files of the Mac the program runs on.
// Package macostest holds a second implementation for tests. What a Mac should look
// like is decided in package converge; nothing here knows the product.
//
// Ownership is read with stat and set with chown, the commands, and never with
// system calls: on a simulated Mac owners are modelled behind these commands.
package macos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// Mac is everything converge needs of one. Local returns the real one.
type Mac struct {
	Files   Files
	Launchd Launchd
	Names   Names
	Host    Host
	Sockets Sockets
	Clock   Clock

	Power      Power
	Defaults   Defaults
	Session    Session
	Guests     Guests
	Volumes    Volumes
	Images     Images
	SSHD       SSHD
	System     System
	Signatures Signatures
	Firewall   Firewall
	GuestNet   GuestNet
	Sudo       Sudo
	Sharing    Sharing
}

// Local is the Mac this program runs on.
func Local() Mac {
	return Mac{
		Files:   disk{},
		Launchd: localLaunchd{},
		Names:   scutil{},
		Host:    sysctl{},
		Sockets: UnixSockets{},
		Clock:   WallClock{},

		Power:      pmset{},
		Defaults:   localDefaults{},
		Session:    loginwindow{},
		Guests:     tartProcesses{},
		Volumes:    diskutil{},
		Images:     hdiutil{},
		SSHD:       openSSH{},
		System:     localSystem{},
		Signatures: codesign{},
		Sudo:       localSudo{},
		Firewall:   localFirewall{},
		GuestNet:   vmnet{},
		Sharing:    remoteDesktop{},
	}
}

// Attr is who may do what with a file.
type Attr struct {
	Mode  fs.FileMode // permission bits only
	Owner string
	Group string
}

func (a Attr) String() string { return fmt.Sprintf("%s:%s %04o", a.Owner, a.Group, a.Mode.Perm()) }

// Info is what Stat finds. Links are not followed.
type Info struct {
	Attr
	Dir bool
	// Target is where a symbolic link points, empty for anything else.
	Target string
}

// Content is a new file.
type Content struct {
	Data io.Reader
	Attr Attr
	// Stage is the folder in which the file is written before it is moved to its
	// place; it must be on the same volume. Empty means the file's own folder.
	Stage string
}

// ErrLocked is returned by Files.Lock when somebody else holds the lock.
var ErrLocked = errors.New("locked by another process")

// Files reads and changes the file system. A missing file is fs.ErrNotExist.
type Files interface {
	Stat(ctx context.Context, path string) (Info, error)
	Open(path string) (io.ReadCloser, error)
	List(path string) ([]string, error)
	// MakeDir makes one folder, if it is missing, and asserts its attributes. It
	// follows no link in the place of the folder.
	MakeDir(ctx context.Context, path string, attr Attr) error
	// Replace puts a new file, always a new inode, in the place of path. Readers
	// see the old file or the whole new one.
	Replace(ctx context.Context, path string, c Content) error
	// Link makes path a symbolic link to target, in one step.
	Link(path, target string) error
	// Rename moves a file or folder, on one volume, to a place where nothing is.
	Rename(from, to string) error
	// Remove removes path and all below it. Nothing there is fine.
	Remove(path string) error
	// Lock takes the lock at path until it is closed or the process ends, or
	// returns ErrLocked at once.
	Lock(path string) (io.Closer, error)
}

// Job is what launchd says of a service in the system domain. It says so in text
// that is no interface, so fields it did not find are zero.
type Job struct {
	// State as launchd words it, e.g. "running" or "spawn scheduled".
	State string
	PID   int
	// Runs counts the times the job was started since it was loaded.
	Runs int
	// LastExit is the last exit code or terminating signal as launchd words it.
	LastExit string
}

// Running reports whether a process of the job is up, not coming or going.
func (j Job) Running() bool { return j.State == "running" && j.PID > 0 }

// Unknown reports that launchd printed something of a shape nobody has seen
// before: the job may be up or down.
func (j Job) Unknown() bool { return j.State == "" && j.PID == 0 }

// BadSignature reports whether the kernel ended the process last because its
// code signature is missing or belongs to other bytes.
func (j Job) BadSignature() bool { return strings.Contains(j.LastExit, "CODESIGNING") }

// Launchd drives services in the system domain, each named by its label. Errors
// of launchd itself are *LaunchdError.
type Launchd interface {
	Print(ctx context.Context, label string) (Job, error)
	// Disabled reports whether the label is switched off in launchd's database of
	// overrides, which outlives reboots and reinstallations of the job.
	Disabled(ctx context.Context, label string) (bool, error)
	Enable(ctx context.Context, label string) error
	// Disable keeps the label from being loaded, also at later boots. A job that is
	// loaded stays.
	Disable(ctx context.Context, label string) error
	Bootstrap(ctx context.Context, plist string) error
	Bootout(ctx context.Context, label string) error
	// Kickstart starts the job; with kill, a running process is ended first.
	Kickstart(ctx context.Context, label string, kill bool) error
}

// Codes that launchctl exits with.
const (
	LaunchdNoProcess  = 3   // bootout of what is not loaded
	LaunchdIO         = 5   // bootstrap of what is loaded, or still leaving
	LaunchdLoaded     = 36  // operation in progress
	LaunchdInProgress = 37  // operation already in progress
	LaunchdNoService  = 113 // no such service
)

// LaunchdError is launchd's refusal.
type LaunchdError struct {
	Verb string
	Code int
	Text string
}

func (e *LaunchdError) Error() string {
	return fmt.Sprintf("launchctl %s: exit %d: %s", e.Verb, e.Code, e.Text)
}

// Absent reports whether the service is not loaded.
func (e *LaunchdError) Absent() bool {
	return e.Code == LaunchdNoProcess || e.Code == LaunchdNoService
}

// Busy reports whether the label may still be leaving, so that it is worth
// asking again soon.
func (e *LaunchdError) Busy() bool {
	return e.Code == LaunchdIO || e.Code == LaunchdLoaded || e.Code == LaunchdInProgress
}

// Name is one of the names a Mac has.
type Name string

// The names of a Mac.
const (
	HostName      Name = "HostName"
	LocalHostName Name = "LocalHostName"
	ComputerName  Name = "ComputerName"
)

// Names reads and sets the names of the Mac. A name that is not set is empty.
type Names interface {
	Get(ctx context.Context, name Name) (string, error)
	Set(ctx context.Context, name Name, value string) error
}

// Host is what the Mac says of itself.
type Host interface {
	// BootSession identifies this boot: kern.bootsessionuuid, which, unlike the
	// boot time, does not move when the clock is set.
	BootSession(ctx context.Context) (string, error)
}

// Sockets asks local servers.
type Sockets interface {
	// Ask connects to the Unix socket at path, sends the request, if there is one,
	// and reads what the server says, up to maxAnswer bytes.
	Ask(ctx context.Context, path string, request []byte) ([]byte, error)
}

// maxAnswer bounds what Sockets.Ask reads.
const maxAnswer = 64 << 10

// Clock is time, so that tests need not wait for it.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the context's error.
	Sleep(ctx context.Context, d time.Duration) error
}
