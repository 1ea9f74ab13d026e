package wire

import "time"

// ToolCall has pid 1 do the work of a command whose state it keeps, such as
// defaults or diskutil; the answer is the command's outcome.
type ToolCall struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
	// Dir is the working directory, for relative paths.
	Dir string `json:"dir"`
}

// Quirks are ways in which a Mac departs from the common case; the zero value
// is a Mac without any.
// Durations are divided by the time-scale.
type Quirks struct {
	// NeedsKick makes the boot's loginwindow ignore auto-login until it is
	// restarted, as seen on Macs without a screen.
	NeedsKick bool `json:"needsKick,omitempty"`
	// NoLoginwindow makes the boot start no loginwindow, as seen on Macs without a
	// screen, too: what kills it finds none, until a kickstart starts it.
	NoLoginwindow bool `json:"noLoginwindow,omitempty"`
	// NoSession lets no console session come up, whatever is configured.
	NoSession bool `json:"noSession,omitempty"`
	// SessionDelay passes in addition before a session is there.
	SessionDelay time.Duration `json:"sessionDelay,omitempty"`

	// FreshPreferences turns off the cache of cfprefsd: edits of the files
	// are seen at once and not only after a reboot.
	FreshPreferences bool `json:"freshPreferences,omitempty"`

	// PowerRefused makes pmset complain, change nothing and exit 0 all the
	// same; PowerForgets resets its settings at boot.
	PowerRefused bool `json:"powerRefused,omitempty"`
	PowerForgets bool `json:"powerForgets,omitempty"`

	// AddVolumeFails and VolumesBusy make diskutil's changes fail;
	// VolumesStayUnmounted keeps added volumes away at boot.
	AddVolumeFails       bool `json:"addVolumeFails,omitempty"`
	VolumesBusy          bool `json:"volumesBusy,omitempty"`
	VolumesStayUnmounted bool `json:"volumesStayUnmounted,omitempty"`

	// IgnoresShutdown makes shutdown and reboot say what they always say, do
	// nothing and return.
	IgnoresShutdown bool `json:"ignoresShutdown,omitempty"`
	// BootTakes is how long a boot takes before anything answers.
	BootTakes time.Duration `json:"bootTakes,omitempty"`
	// BaseSystem makes boots end before the system's disk is unlocked: SSH
	// answers, wants a password, and nothing else runs.
	BaseSystem bool `json:"baseSystem,omitempty"`
}
