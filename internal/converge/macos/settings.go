package macos

import "context"

// Power is the power management of the Mac.
type Power interface {
	// Settings are those in force on mains power, by pmset's names, e.g. "sleep".
	Settings(ctx context.Context) (map[string]string, error)
	// Set sets some for every source of power.
	Set(ctx context.Context, settings map[string]string) error
}

// Defaults is the preferences database. A domain is the path of a file without
// .plist, e.g. /Library/Preferences/com.apple.loginwindow. It is never read or
// written around the preferences daemon, which keeps values in memory.
type Defaults interface {
	// Values are the values of a domain as the command prints one: 1 and 0 for
	// booleans. A collection is in no form to be relied on. A domain that is not
	// there has none.
	Values(ctx context.Context, domain string) (map[string]string, error)
	WriteBool(ctx context.Context, domain, key string, value bool) error
	WriteInt(ctx context.Context, domain, key string, value int) error
	WriteString(ctx context.Context, domain, key, value string) error
	// Delete removes a key; nothing there is fine.
	Delete(ctx context.Context, domain, key string) error
}

// Session is the graphical session on the console.
type Session interface {
	// Owner is who owns the console; root means that nobody is logged in.
	Owner(ctx context.Context) (string, error)
	// Aqua reports whether the user has a graphical launchd domain.
	Aqua(ctx context.Context, user string) (bool, error)
	// RestartLoginwindow restarts loginwindow. It ends the present session and all in it.
	RestartLoginwindow(ctx context.Context) error
}

// Guests are the virtual machines on this Mac, whoever started them.
type Guests interface {
	// Running counts them.
	Running(ctx context.Context) (int, error)
}

// Volume is an APFS volume.
type Volume struct {
	UUID, Name string
	// Mount is where it is mounted; empty: nowhere.
	Mount string
	// QuotaBytes is its ceiling; 0: none, or macOS does not say.
	QuotaBytes int64
	// Owners says that ownership of files is honoured on it.
	Owners bool
}

// Volumes are the APFS volumes beside the system's own.
type Volumes interface {
	// Volume finds one by its UUID, mount point or device; fs.ErrNotExist when
	// there is none.
	Volume(ctx context.Context, which string) (Volume, error)
	// Add makes a volume in the container of the data volume, and mounts it.
	Add(ctx context.Context, name string, quotaBytes int64) (Volume, error)
	Mount(ctx context.Context, uuid string) error
	EnableOwners(ctx context.Context, uuid string) error
	// Remove deletes the volume and all on it.
	Remove(ctx context.Context, uuid string) error
}

// SSHD is the SSH server of the Mac.
type SSHD interface {
	// Check says whether a configuration file is valid, as an error when it is not.
	Check(ctx context.Context, file string) error
	// Effective are the settings in force, by lower-case keyword, as sshd itself
	// resolves them from all its files.
	Effective(ctx context.Context) (map[string]string, error)
	// Answers connects to the local port and reads the server's banner. It waits for
	// seconds at most.
	Answers(ctx context.Context) error
	// Accepts fails unless a new connection would let the user in with this key, a
	// line of authorized_keys. It needs no private half, and waits for seconds at most.
	Accepts(ctx context.Context, user, key string) error
}

// System is what else the Mac says of itself and does as a whole.
type System interface {
	// FileVault reports whether the disk is encrypted for its users.
	FileVault(ctx context.Context) (bool, error)
	// VirtualMachine reports that this is a guest and no Mac.
	VirtualMachine(ctx context.Context) (bool, error)
	// AppleSilicon reports whether the processor is one of Apple's.
	AppleSilicon(ctx context.Context) (bool, error)
	// FreeBytes on the volume that holds path.
	FreeBytes(ctx context.Context, path string) (int64, error)
	// Reboot asks for a reboot. It may end this program, and the connection that it
	// answers on, before it returns: what there is to say is said before.
	Reboot(ctx context.Context) error
	// LogRotation checks a newsyslog configuration file without rotating.
	LogRotation(ctx context.Context, file string) error
}

// Signatures are code signatures, as the kernel will judge them.
type Signatures interface {
	// Verify is an error when the file's signature is missing or does not match.
	Verify(ctx context.Context, file string) error
	// VerifyBundle does so for an application and all in it. With a team, it is also an
	// error when that team of Apple's developer program has not signed it.
	VerifyBundle(ctx context.Context, dir, team string) error
	// Sign gives the file an ad-hoc signature. It replaces the file by a new one.
	Sign(ctx context.Context, file, identifier string) error
}
