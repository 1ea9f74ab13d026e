package supervisor

import (
	"sync"
	"time"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// ticketLife is sudo's timestamp_timeout.
const ticketLife = 5 * time.Minute

// tickets remember at which terminals sudo was given the right password; they
// end with the boot, and run on the real clock whatever the time-scale.
type tickets struct {
	mu sync.Mutex
	at map[string]time.Time
}

// use carries out what a shim asks and reports whether the terminal is trusted
// then.
func (t *tickets) use(c wire.Ticket) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.Forget:
		delete(t.at, c.Terminal)
	case c.Grant:
		if t.at == nil {
			t.at = map[string]time.Time{}
		}
		t.at[c.Terminal] = time.Now()
	}
	granted, ok := t.at[c.Terminal]
	return ok && time.Since(granted) < ticketLife
}
