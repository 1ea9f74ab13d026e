package health

import (
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

const (
	// refusals in a row are a closed session. One alone may be of a moment, and says
	// less than the guests that run meanwhile; its Pod is started again anyway.
	refusals = 2
	// oneMoment: an end may be read twice, and two Pods may start at once; a Pod that is
	// started again waits longer.
	oneMoment = 5 * time.Second
	// refusalHolds is how long they are held against the session: no start that works
	// may come to take them back while nobody sends guests here.
	refusalHolds = 10 * time.Minute
)

// Keychain remembers whether the console session lets guests start. Its zero value
// works.
type Keychain struct {
	// Changed, if not nil, is called when Refusal may have something else to say. It
	// must not block.
	Changed func()
	// Now is the time; nil: the clock's.
	Now func() time.Time

	mu sync.Mutex
	// refused are the starts that were refused since the last one that was not; at is
	// when the last was.
	refused int
	at      time.Time
}

// Note takes in how a guest ended.
func (k *Keychain) Note(o vm.Outcome) {
	switch {
	case o.Kind == vm.NotStarted && o.NoSession:
		k.set(k.refuse)
	case o.Kind == vm.ShutDown || o.Kind == vm.Crashed || o.Kind == vm.Stopped:
		k.Opened() // it had started
	}
}

// refuse counts a refusal, but for those of one moment.
func (k *Keychain) refuse() {
	now := k.now()
	if k.refused == 0 || now.Sub(k.at) >= oneMoment {
		k.refused++
	}
	k.at = now
}

// Opened takes in that a guest has started.
func (k *Keychain) Opened() { k.set(func() { k.refused = 0 }) }

func (k *Keychain) set(change func()) {
	k.mu.Lock()
	before := k.refused
	change()
	changed := k.refused != before
	k.mu.Unlock()
	if changed && k.Changed != nil {
		k.Changed()
	}
}

// Refusal is empty while the session is open, as far as guests have shown.
func (k *Keychain) Refusal() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refused < refusals || k.now().Sub(k.at) > refusalHolds {
		return ""
	}
	return "macOS refused to start guests, again and again"
}

func (k *Keychain) now() time.Time {
	if k.Now != nil {
		return k.Now()
	}
	return time.Now()
}
