package scaleway

// Status is a server's status on the wire.
type Status string

// The statuses the SDK knows. The simulator itself takes a server through
// starting, ready, error, rebooting and reinstalling; [Vendor.SetStatus] sets the rest.
const (
	StatusStarting     Status = "starting"
	StatusReady        Status = "ready"
	StatusError        Status = "error"
	StatusRebooting    Status = "rebooting"
	StatusUpdating     Status = "updating"
	StatusLocking      Status = "locking"
	StatusLocked       Status = "locked"
	StatusUnlocking    Status = "unlocking"
	StatusReinstalling Status = "reinstalling"
	StatusBusy         Status = "busy"
)

// Operation is what a write asks of a server.
type Operation string

// Operations of the rule table. A PATCH that sets a name is a rename, any other an update.
const (
	OpRename    Operation = "rename"
	OpUpdate    Operation = "update"
	OpReboot    Operation = "reboot"
	OpReinstall Operation = "reinstall"
	OpDelete    Operation = "delete"
)

var operations = []Operation{OpRename, OpUpdate, OpReboot, OpReinstall, OpDelete}

// Verdict is whether an operation is taken in a status.
type Verdict int

const (
	// Allow takes the operation; a floor can still refuse a deletion.
	Allow Verdict = iota
	// Transient answers 409 transient_state.
	Transient
	// Locked answers 423 locked.
	Locked
)

type ruleKey struct {
	op     Operation
	status Status
}

// defaultRules hold what is not allowed. Nearly all of it is INF: recordings show
// only writes to a ready server, and one report says that a reinstall is refused
// while another runs. A rename while reinstalling is taken.
func defaultRules() map[ruleKey]Verdict {
	rules := map[ruleKey]Verdict{}
	inMotion := []Status{
		StatusStarting, StatusRebooting, StatusReinstalling,
		StatusUpdating, StatusLocking, StatusUnlocking, StatusBusy,
	}
	for _, status := range inMotion {
		rules[ruleKey{OpReboot, status}] = Transient
		rules[ruleKey{OpReinstall, status}] = Transient
	}
	for _, op := range operations {
		rules[ruleKey{op, StatusLocked}] = Locked
	}
	return rules
}

// SetRule changes what happens to an operation in a status, for example
// SetRule(OpRename, StatusReinstalling, Transient).
func (a *serverAPI) SetRule(op Operation, status Status, verdict Verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules[ruleKey{op, status}] = verdict
}

// refusal is the answer to an operation that the table does not take.
func (a *serverAPI) refusal(op Operation, s *server) (reply, bool) {
	switch a.rules[ruleKey{op, s.status}] {
	case Transient:
		return transientState(s.id, s.status), true
	case Locked:
		return locked(s.id), true
	default:
		return reply{}, false
	}
}
