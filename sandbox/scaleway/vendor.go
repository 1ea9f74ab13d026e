package scaleway

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Vendor is a simulated Scaleway. Its methods may be called from any goroutine.
type Vendor struct {
	opts    Options
	log     *slog.Logger
	handler http.Handler
	calls   []string        // names of all calls that are served
	ctx     context.Context // bounds the hardware's work, which outlives requests
	cancel  context.CancelFunc
	wake    chan struct{}
	workers sync.WaitGroup

	mu        sync.Mutex
	catalogue Catalogue
	secrets   []string
	rules     map[ruleKey]Verdict
	servers   []*server // in the order of creation
	departed  []*server // gone, but perhaps not from lists yet
	keys      []*sshKey
	knobs     Knobs
	quotas    map[string]int // by type
	rights    map[string]Rights
	journal   journal
	faults    []*Fault
	// usedFaults were armed for so many calls, and met them.
	usedFaults []*Fault
	// diagnostics are the connectivity diagnostics, oldest first.
	diagnostics []*diagnostic
	nextSeq     int
	nextFault   int
	busy        int           // servers whose hardware is at work
	waiting     []*server     // with Inline: servers with work for catchUp
	dice        *rand.Rand    // what need not be a secret is drawn from
	changed     chan struct{} // closed and replaced when busy falls
}

// New starts a vendor. Close it when done.
func New(opts Options) *Vendor {
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	v := &Vendor{
		opts: opts, log: opts.Logger, ctx: ctx, cancel: cancel,
		wake:      make(chan struct{}, 1),
		catalogue: *opts.Catalogue,
		secrets:   opts.SecretKeys,
		rules:     defaultRules(),
		knobs:     opts.Knobs,
		quotas:    map[string]int{},
		rights:    map[string]Rights{},
		journal:   journal{limit: opts.JournalLimit},
		changed:   make(chan struct{}),
	}
	v.catalogue.Types = slices.Clone(v.catalogue.Types)
	v.handler = v.routes()
	v.dice = newDice(opts.Random)
	if !opts.Inline {
		v.workers.Go(v.pace)
	}
	return v
}

// Close stops the vendor and waits until its hardware calls have returned.
func (v *Vendor) Close() {
	v.cancel()
	v.workers.Wait()
}

// ServeHTTP answers the vendor's API, and the control API under /sandbox.
func (v *Vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) { v.handler.ServeHTTP(w, r) }

// Settle brings the state up to the clock and waits until no hardware is at work.
func (v *Vendor) Settle(ctx context.Context) error {
	v.catchUp()
	for {
		v.mu.Lock()
		v.advance()
		busy, changed := v.busy, v.changed
		v.mu.Unlock()
		if busy == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the hardware of %d servers: %w", busy, ctx.Err())
		}
	}
}

// SetSecretKeys replaces the accepted keys, as a rotation does.
func (v *Vendor) SetSecretKeys(keys ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secrets = slices.Clone(keys)
}

// SetStock changes the stock of a type. With [NoStock] orders are refused.
func (v *Vendor) SetStock(typeName, stock string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.catalogue.Types {
		if v.catalogue.Types[i].Name == typeName {
			v.catalogue.Types[i].Stock = stock
		}
	}
}

// ServerSpec describes a server delivered before the sandbox began.
type ServerSpec struct {
	// ID defaults to a random UUID.
	ID   string
	Name string
	// Type defaults to M2-L, Zone to fr-par-1, ProjectID to the vendor's.
	Type, Zone, ProjectID string
	// OS names an image. Default: the type's.
	OS string
	// Commitment is duration_24h (the default), renewed_monthly or none.
	Commitment string
	// DeletionScheduled has the server removed at its floor.
	DeletionScheduled bool
	// Age is how long ago the server was created, at scale 1: older than the
	// floor, it can be deleted at once.
	Age time.Duration
}

// AddServer adds a delivered, ready server, after its hardware is installed.
func (v *Vendor) AddServer(ctx context.Context, spec ServerSpec) (Server, error) {
	s, install, err := v.prepare(spec)
	if err != nil {
		return Server{}, fmt.Errorf("adding server %q: %w", spec.Name, err)
	}
	if v.opts.Hardware != nil {
		if err := v.opts.Hardware.Install(ctx, install); err != nil {
			v.releaseIP(s)
			return Server{}, fmt.Errorf("installing server %q: %w", spec.Name, err)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	at, _ := slices.BinarySearchFunc(v.servers, s, olderFirst)
	v.servers = slices.Insert(v.servers, at, s)
	v.poke()
	return v.view(s), nil
}

// olderFirst orders servers made at one time by when they were asked for.
func olderFirst(a, b *server) int {
	return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.seq, b.seq))
}

var (
	errUnknownType = errors.New("no such server type in the zone")
	errUnknownOS   = errors.New("no such image")
)

func (v *Vendor) prepare(spec ServerSpec) (*server, Install, error) {
	orDefault(&spec.Type, "M2-L")
	orDefault(&spec.Zone, "fr-par-1")
	orDefault(&spec.ProjectID, v.opts.ProjectID)
	v.mu.Lock()
	defer v.mu.Unlock()
	kind, found := v.catalogue.serverType(spec.Type, spec.Zone)
	if !found {
		return nil, Install{}, fmt.Errorf("type %q, zone %q: %w", spec.Type, spec.Zone, errUnknownType)
	}
	orDefault(&spec.OS, kind.DefaultOS)
	image, found := v.catalogue.osByName(spec.OS)
	if !found {
		return nil, Install{}, fmt.Errorf("image %q: %w", spec.OS, errUnknownOS)
	}
	s, err := v.newServer(order{
		id: spec.ID, name: spec.Name, project: spec.ProjectID, zone: spec.Zone, kind: kind, os: image,
		created: v.now().Add(-v.scaled(spec.Age)), commitment: spec.Commitment,
	})
	if err != nil {
		return nil, Install{}, err
	}
	s.status, s.delivered, s.deletionScheduled = StatusReady, true, spec.DeletionScheduled
	return s, v.installOf(s, s.password), nil
}

// Server is a server as the sandbox itself sees it, credentials never sealed.
type Server struct {
	ID                string     `json:"id"`
	Name              string     `json:"name"`
	Type              string     `json:"type"`
	Zone              string     `json:"zone"`
	ProjectID         string     `json:"project_id"`
	Status            Status     `json:"status"`
	Delivered         bool       `json:"delivered"`
	IP                netip.Addr `json:"ip"`
	OS                string     `json:"os"`
	CreatedAt         time.Time  `json:"created_at"`
	DeletableAt       time.Time  `json:"deletable_at"`
	DeletionScheduled bool       `json:"deletion_scheduled"`
	// Installs counts installations, the first delivery included.
	Installs int `json:"installs"`
	// Password is left out of JSON.
	Password string `json:"-"`
}

// Servers are all servers that exist now, oldest first.
func (v *Vendor) Servers() []Server {
	v.catchUp()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.advance()
	views := make([]Server, len(v.servers))
	for i, s := range v.servers {
		views[i] = v.view(s)
	}
	return views
}

// Server finds one server by identifier or name.
func (v *Vendor) Server(idOrName string) (Server, bool) {
	for _, s := range v.Servers() {
		if s.ID == idOrName || s.Name == idOrName {
			return s, true
		}
	}
	return Server{}, false
}

func (v *Vendor) view(s *server) Server {
	return Server{
		ID: s.id, Name: s.name, Type: s.kind.Name, Zone: s.zone, ProjectID: s.project,
		Status: s.status, Delivered: s.delivered, IP: s.ip, OS: s.os.Name,
		CreatedAt: s.created, DeletableAt: s.deletable, DeletionScheduled: s.deletionScheduled,
		Installs: s.installs, Password: s.password,
	}
}

// now is the vendor's time, in the microseconds that answers carry.
func (v *Vendor) now() time.Time { return v.opts.Clock.Now().UTC().Truncate(time.Microsecond) }

// scaled is a duration at the vendor's time scale.
func (v *Vendor) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / v.opts.TimeScale)
}

// announce wakes those who wait for hardware. Callers hold the lock.
func (v *Vendor) announce() {
	close(v.changed)
	v.changed = make(chan struct{})
}

// newID is a random UUID. Callers hold the lock, as the source need not be safe.
func (v *Vendor) newID() (string, error) {
	id, err := uuid.NewRandomFromReader(v.opts.Random)
	if err != nil {
		return "", fmt.Errorf("drawing an identifier: %w", err)
	}
	return id.String(), nil
}

// newDice is seeded from the vendor's source of randomness. One that fails shows
// at the first identifier drawn.
func newDice(source io.Reader) *rand.Rand {
	var seed [16]byte
	_, _ = io.ReadFull(source, seed[:])
	return rand.New(rand.NewPCG(binary.LittleEndian.Uint64(seed[:8]), binary.LittleEndian.Uint64(seed[8:])))
}

// requestID names an answer. Callers hold the lock.
func (v *Vendor) requestID() string {
	var id uuid.UUID
	binary.LittleEndian.PutUint64(id[:8], v.dice.Uint64())
	binary.LittleEndian.PutUint64(id[8:], v.dice.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, RFC 9562
	return id.String()
}

// newPassword is 12 letters and digits, as recorded.
func (v *Vendor) newPassword() (string, error) {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
	raw := make([]byte, 12)
	if _, err := io.ReadFull(v.opts.Random, raw); err != nil {
		return "", fmt.Errorf("drawing a password: %w", err)
	}
	for i, b := range raw {
		raw[i] = letters[int(b)%len(letters)]
	}
	return string(raw), nil
}
