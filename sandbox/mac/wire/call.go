package wire

// Call is what a shim sends to pid 1. Exactly one of the pointers is set. A
// connection starts with Hello and ends with Exit; each call gets one Answer, but for
// Signal and for a Shutdown that is obeyed.
type Call struct {
	Hello     *Hello     `json:"hello,omitempty"`
	Owner     *OwnerCall `json:"owner,omitempty"`
	Verify    *Verify    `json:"verify,omitempty"`
	Run       *Run       `json:"run,omitempty"`
	Signal    int        `json:"signal,omitempty"`
	Launchctl []string   `json:"launchctl,omitempty"`
	Name      *NameCall  `json:"name,omitempty"`
	Shutdown  string     `json:"shutdown,omitempty"`
	Resigned  *Resigned  `json:"resigned,omitempty"`
	Ticket    *Ticket    `json:"ticket,omitempty"`
	Tool      *ToolCall  `json:"tool,omitempty"`
	// Aqua asks whether the caller has a console session.
	Aqua bool       `json:"aqua,omitempty"`
	Exit *Execution `json:"exit,omitempty"`

	PF      *PFCall      `json:"pf,omitempty"`
	Network *NetworkCall `json:"network,omitempty"`
}

// Hello introduces a shim.
type Hello struct {
	Argv []string `json:"argv"`
	UID  int      `json:"uid"`
}

// Inode names a file independently of its path, so that ownership follows a
// rename and ends with the file.
type Inode struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Birth int64  `json:"birth"`
}

// Owner is who a file belongs to in the model.
type Owner struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// OwnerCall reads the owner of a file, or sets it when Set is given.
type OwnerCall struct {
	Inode Inode  `json:"inode"`
	Path  string `json:"path"` // absolute and clean, for the default
	Set   *Owner `json:"set,omitempty"`
}

// Verify asks whether a password is the account's. It is counted.
type Verify struct {
	Password string `json:"password"`
}

// Run asks pid 1 to start a program under another identity with the three
// descriptors that travel in the same message.
type Run struct {
	Path string   `json:"path"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
	UID  int      `json:"uid"`
}

// NameCall reads or sets one of the names scutil knows.
type NameCall struct {
	Key string  `json:"key"`
	Set *string `json:"set,omitempty"`
}

// Answer is pid 1's reply to a Call.
type Answer struct {
	Error string `json:"error,omitempty"`
	// RC, Stdout and Stderr are the outcome of a launchctl call or of a run
	// (Signal then says which signal ended it, if any), or of an armed fault.
	RC     int    `json:"rc,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
	// Unmodelled is set when the call asked for what is not modelled.
	Unmodelled string `json:"unmodelled,omitempty"`

	World    *World `json:"world,omitempty"` // to Hello
	Fault    *Fault `json:"fault,omitempty"` // to Hello: fail like this
	Owner    *Owner `json:"owner,omitempty"`
	Verified bool   `json:"verified,omitempty"`
	Locked   bool   `json:"locked,omitempty"`
	Value    string `json:"value,omitempty"`
	Found    bool   `json:"found,omitempty"`

	Network *NetworkAnswer `json:"network,omitempty"`
}

// World is what every shim may know without asking again.
type World struct {
	Facts       Facts   `json:"facts"`
	Username    string  `json:"username"`
	BootSession string  `json:"bootSession"`
	BootUnix    int64   `json:"bootUnix"`
	TimeScale   float64 `json:"timeScale"`
}

// Resigned says that a program was signed here: the new bytes run as the twin
// of the old ones.
type Resigned struct {
	SHA256 string `json:"sha256"`
	From   string `json:"from"`
}

// Ticket asks whether sudo still trusts a terminal, or sets that.
type Ticket struct {
	// Terminal names a terminal and the session that holds it.
	Terminal string `json:"terminal"`
	// Grant notes that the password was right just now; Forget ends the trust.
	Grant  bool `json:"grant,omitempty"`
	Forget bool `json:"forget,omitempty"`
}
