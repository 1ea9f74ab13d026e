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
	*world
	*fleet
	*keyring
	*shop
	*serverAPI
	*faultBook
	*gateway
	handler http.Handler
}

// world is what all parts of the vendor stand on: its clock, its randomness, what can
// be turned, and the lock that guards the state of every part.
type world struct {
	opts Options
	log  *slog.Logger

	mu    sync.Mutex
	knobs Knobs
	dice  *rand.Rand // what need not be a secret is drawn from
}

// New starts a vendor. Close it when done.
func New(opts Options) *Vendor {
	opts = opts.withDefaults()
	w := &world{opts: opts, log: opts.Logger, knobs: opts.Knobs, dice: newDice(opts.Random)}
	keys := &keyring{world: w}
	fleet := newFleet(w, keys)
	shop := &shop{world: w, catalogue: *opts.Catalogue}
	shop.catalogue.Types = slices.Clone(shop.catalogue.Types)
	servers := &serverAPI{world: w, fleet: fleet, shop: shop, rules: defaultRules(), quotas: map[string]int{}}
	examinations := &examinations{world: w, fleet: fleet, servers: servers}
	served := slices.Concat(servers.serverRoutes(), examinations.routes(), shop.catalogueRoutes(), keys.keyRoutes())
	faults := &faultBook{world: w, fleet: fleet, api: servers}
	for _, r := range served {
		faults.calls = append(faults.calls, r.name)
	}
	v := &Vendor{
		world: w, fleet: fleet, keyring: keys, shop: shop, serverAPI: servers, faultBook: faults,
		gateway: &gateway{
			world: w, fleet: fleet, faults: faults, secrets: opts.SecretKeys,
			rights: map[string]Rights{}, journal: journal{limit: opts.JournalLimit},
		},
	}
	v.handler = v.routes(served)
	if !opts.Inline {
		fleet.workers.Go(fleet.pace)
	}
	return v
}

func (v *Vendor) routes(served []route) http.Handler {
	mux := http.NewServeMux()
	for _, r := range served {
		mux.HandleFunc(r.method+" "+r.path, v.serve(r.name, r.modelled()))
	}
	mux.HandleFunc("/", v.serve("", func(c *call) reply { return notServed(c.method + " " + c.path) }))
	(&control{v}).control(mux)
	return mux
}

// Close stops the vendor and waits until its hardware calls have returned.
func (v *Vendor) Close() {
	v.cancel()
	v.workers.Wait()
}

// ServeHTTP answers the vendor's API, and the control API under /sandbox.
func (v *Vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) { v.handler.ServeHTTP(w, r) }

// Settle brings the state up to the clock and waits until no hardware is at work.
func (f *fleet) Settle(ctx context.Context) error {
	f.catchUp()
	for {
		f.mu.Lock()
		f.advance()
		busy, changed := f.busy, f.changed
		f.mu.Unlock()
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
func (g *gateway) SetSecretKeys(keys ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.secrets = slices.Clone(keys)
}

// SetStock changes the stock of a type. With [NoStock] orders are refused.
func (s *shop) SetStock(typeName, stock string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.catalogue.Types {
		if s.catalogue.Types[i].Name == typeName {
			s.catalogue.Types[i].Stock = stock
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
	spec.Type = cmp.Or(spec.Type, "M2-L")
	spec.Zone = cmp.Or(spec.Zone, "fr-par-1")
	spec.ProjectID = cmp.Or(spec.ProjectID, v.opts.ProjectID)
	v.mu.Lock()
	defer v.mu.Unlock()
	kind, found := v.catalogue.serverType(spec.Type, spec.Zone)
	if !found {
		return nil, Install{}, fmt.Errorf("type %q, zone %q: %w", spec.Type, spec.Zone, errUnknownType)
	}
	spec.OS = cmp.Or(spec.OS, kind.DefaultOS)
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
func (f *fleet) Servers() []Server {
	f.catchUp()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance()
	views := make([]Server, len(f.servers))
	for i, s := range f.servers {
		views[i] = f.view(s)
	}
	return views
}

// Server finds one server by identifier or name.
func (f *fleet) Server(idOrName string) (Server, bool) {
	for _, s := range f.Servers() {
		if s.ID == idOrName || s.Name == idOrName {
			return s, true
		}
	}
	return Server{}, false
}

func (f *fleet) view(s *server) Server {
	return Server{
		ID: s.id, Name: s.name, Type: s.kind.Name, Zone: s.zone, ProjectID: s.project,
		Status: s.status, Delivered: s.delivered, IP: s.ip, OS: s.os.Name,
		CreatedAt: s.created, DeletableAt: s.deletable, DeletionScheduled: s.deletionScheduled,
		Installs: s.installs, Password: s.password,
	}
}

// now is the vendor's time, in the microseconds that answers carry.
func (w *world) now() time.Time { return w.opts.Clock.Now().UTC().Truncate(time.Microsecond) }

// scaled is a duration at the vendor's time scale.
func (w *world) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / w.opts.TimeScale)
}

// announce wakes those who wait for hardware. Callers hold the lock.
func (f *fleet) announce() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// newID is a random UUID. Callers hold the lock, as the source need not be safe.
func (w *world) newID() (string, error) {
	id, err := uuid.NewRandomFromReader(w.opts.Random)
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
func (w *world) requestID() string {
	var id uuid.UUID
	binary.LittleEndian.PutUint64(id[:8], w.dice.Uint64())
	binary.LittleEndian.PutUint64(id[8:], w.dice.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4, RFC 9562
	return id.String()
}

// newPassword is 12 letters and digits, as recorded.
func (w *world) newPassword() (string, error) {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789"
	raw := make([]byte, 12)
	if _, err := io.ReadFull(w.opts.Random, raw); err != nil {
		return "", fmt.Errorf("drawing a password: %w", err)
	}
	for i, b := range raw {
		raw[i] = letters[int(b)%len(letters)]
	}
	return string(raw), nil
}
