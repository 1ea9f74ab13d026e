package machine

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// reserved is how long a host is left to the Machine that has chosen it. By then the
// cache shows the claim, or it came to nothing.
const reserved = 5 * time.Second

// reservations are the hosts that Machines of this process have just chosen. Until the
// cache shows the claim others would choose the same host, and meet a conflict that
// costs ten requests. Nothing hangs on them: the Host's resourceVersion decides.
type reservations struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// by has the reservation of each host that was ever chosen, by its name.
	by map[string]reservation
	// tried is the token that each Machine reached for a host with.
	tried map[client.ObjectKey]string
}

type reservation struct {
	machine client.ObjectKey
	until   time.Time
}

// choose chooses a host that nobody else has reserved, and reserves it.
func (r *reservations) choose(wish host.Requirements, hosts []infrav1.ScalewayAppleSiliconHost, machine client.ObjectKey) (*host.Host, host.Skipped) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	wish.Reserved = func(name string) bool {
		has := r.by[name]
		return has.machine != machine && now.Before(has.until)
	}
	chosen, skipped := host.Choose(wish, hosts)
	if chosen != nil {
		if r.by == nil {
			r.by = map[string]reservation{}
		}
		r.by[chosen.Name] = reservation{machine, now.Add(reserved)}
	}
	return chosen, skipped
}

// firstTry reports that the Machine reaches for a host with this token for the first time
// in this process: then what the cache shows of the host is as good as any reading. Later
// it may be older than our own claim.
func (r *reservations) firstTry(machine client.ObjectKey, token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tried[machine] == token {
		return false
	}
	if r.tried == nil {
		r.tried = map[client.ObjectKey]string{}
	}
	r.tried[machine] = token
	return true
}

// forget drops what is known of a Machine that is gone.
func (r *reservations) forget(machine client.ObjectKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tried, machine)
}
