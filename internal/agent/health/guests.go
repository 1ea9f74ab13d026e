package health

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/vm"
	"github.com/macfleet/macfleet/internal/converge/document"
)

func well(reason string) Finding { return Finding{Status: corev1.ConditionTrue, Reason: reason} }

func bad(reason, message string, args ...any) Finding {
	return Finding{Status: corev1.ConditionFalse, Reason: reason, Message: fmt.Sprintf(message, args...)}
}

// toolLooks in a row must find the tool broken: guests that run go on without it, and a Mac that is
// busy fails to execute something now and then.
const toolLooks = 3

// probeAnyway is how often the tool is executed although its file is the same.
const probeAnyway = 10 * time.Minute

// Tool of virtual machines.
type Tool struct {
	// Probe executes it; Path is its file, looked at to spare that. Empty: unknown.
	Probe func(ctx context.Context) (vm.Info, error)
	Path  string
	// Version that it should have. Empty: any.
	Version string
	// Root says that the agent runs as root, which macOS guests cannot be run by.
	Root bool
	// Now is the time; nil: the clock's.
	Now func() time.Time
}

// Check that the tool works. It is executed when its file changed, when it failed
// before, and every ten minutes.
func (t Tool) Check() Check {
	if t.Now == nil {
		t.Now = time.Now
	}
	p := &probed{tool: t}
	return Check{Type: VirtualizationReady, Essential: true, Looks: toolLooks, Asks: "the tool of virtual machines", Look: p.look}
}

type probed struct {
	tool Tool
	mu   sync.Mutex
	file fs.FileInfo
	at   time.Time
	last Finding
}

func (p *probed) look(ctx context.Context) (Finding, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, file := p.tool.Now(), p.stat()
	fresh := p.last.Status == corev1.ConditionTrue && now.Sub(p.at) < probeAnyway
	if fresh && file != nil && p.file != nil && sameFile(file, p.file) {
		return p.last, nil
	}
	info, err := p.tool.Probe(ctx)
	if ctx.Err() != nil {
		return Finding{}, fmt.Errorf("the tool of virtual machines did not answer in time: %w", context.Cause(ctx)) // it may be slow, and work
	}
	p.last, p.file, p.at = p.tool.judge(info, err), file, now
	return p.last, nil
}

func (p *probed) stat() fs.FileInfo {
	if p.tool.Path == "" {
		return nil
	}
	info, err := os.Stat(p.tool.Path)
	if err != nil {
		return nil
	}
	return info
}

func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}

func (t Tool) judge(info vm.Info, err error) Finding {
	switch {
	case err != nil:
		return bad(ReasonToolUnusable, "%s; install it anew, or mend the profile's spec.tart", err)
	case t.Root:
		return bad(ReasonRunsAsRoot, "the agent runs as root, and macOS guests cannot start then: its job needs UserName, the console user")
	case t.Version != "" && info.Version != t.Version:
		f := bad(ReasonOtherVersion, "%s is version %s, and the profile wants %s", info.Name, info.Version, t.Version)
		f.Status = corev1.ConditionTrue // guests do start
		return f
	}
	return well(ReasonToolWorks)
}

// Hostd is the root half of the agent, which sees session and firewall.
type Hostd struct {
	// Ask for how things are; nil: there is no hostd, and neither is required.
	Ask func(ctx context.Context) (document.HostdAnswer, error)
	// NeedSession: guests are run in the console user's session.
	NeedSession bool
	// Refusal, if not nil, returns why the session's keychain refuses guests; empty
	// while it does not.
	Refusal func() string
	// Now is the time; nil: the clock's.
	Now func() time.Time
}

// Checks of session and firewall.
func (h Hostd) Checks() []Check {
	if h.Now == nil {
		h.Now = time.Now
	}
	return []Check{
		{Type: GUISessionReady, Essential: true, Patient: true, Asks: "hostd", Look: h.session},
		{Type: FirewallReady, Essential: true, Patient: true, Asks: "hostd", Look: h.firewall},
	}
}

func (h Hostd) session(ctx context.Context) (Finding, error) {
	if h.Refusal != nil {
		if why := h.Refusal(); why != "" {
			return bad(ReasonKeychain, "%s: the login keychain of the console user is locked, or their session is not whole; log in at the Mac once, or reboot it", why), nil
		}
	}
	if h.Ask == nil || !h.NeedSession {
		return well(ReasonNotRequired), nil
	}
	a, err := h.Ask(ctx)
	switch {
	case err != nil:
		return Finding{Status: corev1.ConditionUnknown, Reason: ReasonHostdAway, Message: away(err)}, nil
	case !a.Session:
		return bad(ReasonNoSession, "the console user has no session, and macOS guests cannot start without one; "+
			"after a boot it comes within a minute, else tart-kubelet doctor says why"), nil
	}
	return well(ReasonSession), nil
}

// provedWithin is how old hostd's last proof may be: it makes one a minute.
const provedWithin = 5 * time.Minute

func (h Hostd) firewall(ctx context.Context) (Finding, error) {
	if h.Ask == nil {
		return well(ReasonNotRequired), nil
	}
	a, err := h.Ask(ctx)
	if err != nil {
		return bad(ReasonHostdAway, "%s", away(err)), nil
	}
	for _, trouble := range a.Troubles {
		if why, is := strings.CutPrefix(trouble, "firewall: "); is {
			return bad(ReasonNotProved, "the firewall around the guests is not proved: %s", why), nil
		}
	}
	proved, err := time.Parse(time.RFC3339, a.FirewallProvedAt)
	if err != nil || h.Now().Sub(proved) > provedWithin {
		return bad(ReasonNotProved, "the firewall around the guests was not proved of late; tart-kubelet doctor says what is in the way"), nil
	}
	return well(ReasonProved), nil
}

func away(err error) string {
	return fmt.Sprintf("hostd does not answer (is %s loaded?): %s", document.HostdLabel, err)
}
