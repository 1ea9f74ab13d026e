// Package health looks, again and again, whether guests can run on this host: the
// tool, the console session, the firewall, addresses, disks, memory, processes. It
// says what it found in the words of a Node's conditions; package node shows them,
// and what a Pod does about a missing one is package pod's business.
//
// Every check has its own deadline, and one that hangs holds up no other.
package health

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// Conditions beside core's own.
const (
	VirtualizationReady corev1.NodeConditionType = "VirtualizationReady"
	GUISessionReady     corev1.NodeConditionType = "GUISessionReady"
	FirewallReady       corev1.NodeConditionType = "FirewallReady"
	DHCPPoolHealthy     corev1.NodeConditionType = "DHCPPoolHealthy"
)

// Reasons of those conditions, and of every check that did not come to an end.
const (
	ReasonCheckFailed   = "CheckFailed"
	ReasonCheckHangs    = "CheckHangs"
	ReasonToolWorks     = "ToolWorks"
	ReasonToolUnusable  = "ToolUnusable"
	ReasonRunsAsRoot    = "RunsAsRoot"
	ReasonOtherVersion  = "OtherVersion"
	ReasonSession       = "SessionPresent"
	ReasonNoSession     = "NoConsoleSession"
	ReasonKeychain      = "KeychainLocked"
	ReasonNotRequired   = "NotRequired"
	ReasonProved        = "FirewallProved"
	ReasonNotProved     = "FirewallNotProved"
	ReasonHostdAway     = "HostdAway"
	ReasonAddressesFree = "AddressesFree"
	ReasonAddressesGone = "AddressesExhausted"
	ReasonLongLeases    = "LongLeases"
)

const (
	// interval between two looks; what needs less is told by whoever notices.
	interval = 30 * time.Second
	// deadline of one check.
	deadline = 10 * time.Second
	// patience is how long what comes and goes by itself, as the session after a boot,
	// may be missing before the Node is not Ready.
	patience = 2 * time.Minute
)

// Finding is what one check found.
type Finding struct {
	Type    corev1.NodeConditionType
	Status  corev1.ConditionStatus
	Reason  string
	Message string
	// Blocks says that no guest can start here until that changes.
	Blocks bool
}

// Check is one thing to look at. Look returns what it found, or an error when that
// cannot be told.
type Check struct {
	Type corev1.NodeConditionType
	Look func(ctx context.Context) (Finding, error)
	// Essential: no guest can start while the status is False; Patient: only after that
	// lasted for two minutes. An essential check that hangs for so long is False, too.
	Essential, Patient bool
	// Looks in a row must find the status False before what was well keeps guests from starting; 0:
	// one. What never was well does at once.
	Looks int
	// Asks names whom Look asks, for people. Empty: nobody.
	Asks string
}

// Options of New.
type Options struct {
	Checks []Check
	// Deadline of each check. Default: 10 s.
	Deadline time.Duration
	// Clock for tests. Default: the real one.
	Clock clock.WithTicker
	// Log of what changes. Nil: the default.
	Log *slog.Logger
}

// Monitor runs the checks.
type Monitor struct {
	o     Options
	again chan struct{}

	mu       sync.Mutex
	findings []Finding
	changed  chan struct{}
	// busy are checks that have not come back; downSince is when one was last well.
	busy      map[corev1.NodeConditionType]bool
	downSince map[corev1.NodeConditionType]time.Time
	// falseLooks counts those in a row, of checks that were well once.
	falseLooks map[corev1.NodeConditionType]int
}

// New returns a monitor; Run makes it look.
func New(o Options) *Monitor {
	if o.Deadline == 0 {
		o.Deadline = deadline
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Monitor{
		o: o, again: make(chan struct{}, 1), changed: make(chan struct{}),
		busy: map[corev1.NodeConditionType]bool{}, downSince: map[corev1.NodeConditionType]time.Time{},
		falseLooks: map[corev1.NodeConditionType]int{},
	}
}

// Run looks until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		m.look(ctx)
		t := m.o.Clock.NewTimer(interval)
		select {
		case <-ctx.Done():
		case <-m.again:
		case <-t.C():
		}
		t.Stop()
	}
	return nil
}

// LookAgain has everything looked at soon: somebody met what may be a condition.
func (m *Monitor) LookAgain() {
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// Findings of the last look, one a check; none before the first has ended.
func (m *Monitor) Findings() []Finding {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.findings)
}

// Changed is closed when Findings has something else to say. Ask for it before
// Findings.
func (m *Monitor) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// look runs all checks beside one another, for as long as the slowest may take.
func (m *Monitor) look(ctx context.Context) {
	found := make([]Finding, len(m.o.Checks))
	var looking sync.WaitGroup
	for i, c := range m.o.Checks {
		looking.Go(func() { found[i] = m.judge(c, m.one(ctx, c)) })
	}
	looking.Wait()
	if ctx.Err() != nil {
		return // what failed with it says nothing
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Equal(found, m.findings) {
		return
	}
	m.log(found)
	m.findings = found
	close(m.changed)
	m.changed = make(chan struct{})
}

// one runs a check within its deadline. A check that does not heed it is not begun
// again before it has come back.
func (m *Monitor) one(ctx context.Context, c Check) Finding {
	if !m.begin(c) {
		return m.hangs(c)
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Deadline)
	answer := make(chan Finding, 1)
	go func() {
		defer cancel()
		f := m.ask(ctx, c)
		m.end(c) // before it is told: the next look may come at once
		answer <- f
	}()
	select {
	case f := <-answer:
		return f
	case <-ctx.Done():
	}
	select {
	case f := <-answer: // it came back, and its end is what ended ctx
		return f
	default:
		return m.hangs(c)
	}
}

// ask takes an error at the end of ctx for that of the deadline.
func (m *Monitor) ask(ctx context.Context, c Check) Finding {
	f, err := c.Look(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return m.hangs(c)
	case err != nil:
		return Finding{Status: corev1.ConditionUnknown, Reason: ReasonCheckFailed, Message: err.Error()}
	}
	return f
}

func (m *Monitor) hangs(c Check) Finding {
	who := c.Asks
	if who == "" {
		who = "the check"
	}
	return Finding{
		Status: corev1.ConditionUnknown, Reason: ReasonCheckHangs,
		Message: fmt.Sprintf("%s does not answer within %s", who, m.o.Deadline),
	}
}

func (m *Monitor) begin(c Check) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.busy[c.Type] {
		return false
	}
	m.busy[c.Type] = true
	return true
}

func (m *Monitor) end(c Check) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, c.Type)
}

// judge says whether a finding keeps guests from starting, by how long it stands.
func (m *Monitor) judge(c Check, f Finding) Finding {
	f.Type = c.Type
	m.mu.Lock()
	defer m.mu.Unlock()
	hangs := c.Essential && f.Reason == ReasonCheckHangs
	if _, wasWell := m.falseLooks[c.Type]; f.Status == corev1.ConditionTrue || wasWell && f.Status == corev1.ConditionUnknown {
		m.falseLooks[c.Type] = 0
	}
	if f.Status == corev1.ConditionTrue {
		delete(m.downSince, c.Type)
	}
	if f.Status != corev1.ConditionFalse && !hangs {
		return f
	}
	now := m.o.Clock.Now()
	since, known := m.downSince[c.Type]
	if !known {
		m.downSince[c.Type], since = now, now
	}
	long := now.Sub(since) >= patience
	if hangs && long {
		f.Status, f.Message = corev1.ConditionFalse, fmt.Sprintf("%s, for more than %s now: guests cannot start; look what keeps it busy, or reboot the Mac", f.Message, patience)
	}
	f.Blocks = f.Status == corev1.ConditionFalse && c.Essential && (!c.Patient || long) && (hangs || m.enough(c))
	return f
}

// enough counts a look that found the status False.
func (m *Monitor) enough(c Check) bool {
	n, wasWell := m.falseLooks[c.Type]
	if wasWell {
		m.falseLooks[c.Type] = n + 1
	}
	return !wasWell || n+1 >= c.Looks
}

// log tells of each status that is another one now.
func (m *Monitor) log(found []Finding) {
	for _, f := range found {
		i := slices.IndexFunc(m.findings, func(o Finding) bool { return o.Type == f.Type })
		if i < 0 || m.findings[i].Status != f.Status || m.findings[i].Reason != f.Reason {
			m.o.Log.Info("host condition", "type", f.Type, "status", f.Status, "reason", f.Reason, "message", f.Message)
		}
	}
}
