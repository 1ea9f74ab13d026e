package wire

import "time"

// Switches set what is not known for certain of a Mac, or goes wrong in the
// world around it. The zero value is a Mac in good health; they can be turned
// at any time and hold across reboots.
type Switches struct {
	// RecycledVnodes is the chance, 0 to 1, that the kernel has forgotten a
	// file's first execution when the file is executed again after it changed
	// in place. 0 means that such a program is always killed.
	RecycledVnodes float64 `json:"recycledVnodes,omitempty"`
	// RespawnLimit is the number of background registrations past which
	// launchd no longer starts an ended job again by itself; 0 means never.
	RespawnLimit int `json:"respawnLimit,omitempty"`
	// DatabaseLimit is the size in bytes of the database of background items
	// past which a boot loads no daemon of a third party; 0 means never.
	DatabaseLimit int64 `json:"databaseLimit,omitempty"`
	// LockSteps lock the account for a while after so many wrong passwords in
	// a row, in ascending order.
	LockSteps []LockStep `json:"lockSteps,omitempty"`
	// Door bends how SSH answers.
	Door Door `json:"door,omitzero"`
	// Quirks are departures of the Mac itself.
	Quirks Quirks `json:"quirks,omitzero"`
}

// LockStep is one rule of the account's lockout.
type LockStep struct {
	// After is the number of wrong passwords in a row.
	After int `json:"after"`
	// For is how long the account then stays locked, under the time-scale.
	For time.Duration `json:"for"`
}

// Door is what can be wrong with a Mac's SSH port. The zero value is an open
// door; of several faults the first that a connection meets counts.
type Door struct {
	// Refuse closes the port: connections are refused.
	Refuse bool `json:"refuse,omitempty"`
	// Stall accepts connections and never says a word.
	Stall bool `json:"stall,omitempty"`
	// QueueFull is a port whose queue of connections is full: whoever connects waits
	// and nobody serves them, until launchd opens the port anew.
	QueueFull bool `json:"queueFull,omitempty"`
	// NoBanner accepts connections and closes them at once.
	NoBanner bool `json:"noBanner,omitempty"`
	// CutAfter cuts each connection after so many bytes from the client.
	CutAfter int64 `json:"cutAfter,omitempty"`
	// CutBeforeExit cuts each connection when its command has ended, before
	// the exit status is told.
	CutBeforeExit bool `json:"cutBeforeExit,omitempty"`
	// OtherHostKeys offers keys the Mac never had, as an impostor would.
	OtherHostKeys bool `json:"otherHostKeys,omitempty"`
	// NoKeys is an image into which no public key was injected.
	NoKeys bool `json:"noKeys,omitempty"`
	// Connections is how many connections meet Stall, NoBanner, CutAfter and
	// CutBeforeExit before the door is in order again; 0 means all.
	Connections int `json:"connections,omitempty"`
}

// JobFaultKind names what goes wrong with a launchd job.
type JobFaultKind string

// The faults of jobs.
const (
	// KickIgnored makes kickstart say that all went well and do nothing.
	KickIgnored JobFaultKind = "kick ignored"
	// NeverSpawns leaves a job pending where a process should start.
	NeverSpawns JobFaultKind = "never spawns"
	// NotSpawned makes bootstrap load a job and not start it.
	NotSpawned JobFaultKind = "not spawned"
	// Crashes ends a job's process by SIGABRT a while after its start.
	Crashes JobFaultKind = "crashes"
	// ExitsZero has a job's process end with code 0 a while after its start.
	ExitsZero JobFaultKind = "exits with 0"
	// NoHealth starts, in place of the job's program, one that does nothing.
	NoHealth JobFaultKind = "no health"
	// IgnoresTerm keeps SIGTERM from a job's process.
	IgnoresTerm JobFaultKind = "ignores SIGTERM"
	// Unprintable makes print answer what nobody can parse.
	Unprintable JobFaultKind = "unprintable"
)

// JobFault makes launchd misbehave with one job.
type JobFault struct {
	Label string       `json:"label"`
	Kind  JobFaultKind `json:"kind"`
	// After is how long a process that Crashes or ExitsZero lives, under the
	// time-scale.
	After time.Duration `json:"after,omitempty"`
	// Count is how often it happens; 0 means until the next boot.
	Count int `json:"count,omitempty"`
}

// FullDisk makes the disk below a folder full: so many more bytes can be
// written there, by whatever program, before ENOSPC.
type FullDisk struct {
	Path string `json:"path"`
	// Free is what is left in bytes, rounded up to pages of 4 KiB.
	Free int64 `json:"free"`
	// Undo makes room again.
	Undo bool `json:"undo,omitempty"`
}
