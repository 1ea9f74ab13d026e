// Package hostd is the root half of the agent: a small daemon that keeps true what
// only root can, between two runs of converge. Each minute, and whenever the agent
// is about to start a guest, it proves the firewall around the guests; it keeps the
// console session alive and watches the SSH server. It answers on a local socket,
// to root and the console user, a closed set of verbs that take no argument.
//
// What the Mac should be comes from the configuration file that converge writes.
// Guests and the API server are the business of the other half, package agent.
package hostd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/firewall"
	"github.com/macfleet/macfleet/internal/converge/macos"
)

const (
	// interval is how often everything is looked at.
	interval = time.Minute
	// lookTimeout bounds one look, so that a command that hangs does not end them.
	lookTimeout = 50 * time.Second
	// armTimeout is what one question may take: waiting for converge, five tries
	// against somebody else's change, and the looks around them.
	armTimeout = 30 * time.Second
)

// options of Run. Mac must be set, the rest has working zero values.
type options struct {
	Mac macos.Mac
	// ConfigFile and Socket are document.ConfigFile and document.HostdSocket when
	// empty.
	ConfigFile, Socket string
	// Patience is for a request to arrive, and for its answer to be taken: 10 s when zero.
	Patience time.Duration
	// Build is the SHA-256 of the build this process was started from.
	Build string
	// UserID and PeerUID find the number of a user and who is at the other end of a
	// connection; nil asks the Mac.
	UserID  func(ctx context.Context, user string) (int, error)
	PeerUID func(*net.UnixConn) (int, error)
}

func (o options) withDefaults() options {
	o.ConfigFile = cmp.Or(o.ConfigFile, document.ConfigFile)
	o.Socket = cmp.Or(o.Socket, document.HostdSocket)
	o.Patience = cmp.Or(o.Patience, 10*time.Second)
	if o.UserID == nil {
		o.UserID = macos.UserID
	}
	if o.PeerUID == nil {
		o.PeerUID = macos.PeerUID
	}
	return o
}

// run is hostd's life. It returns nil when ctx ends, and an error when hostd cannot
// answer any more, for launchd to start another. The rules around the guests stay
// when it goes.
func run(ctx context.Context, o options, log *slog.Logger) error {
	h := newHostd(o, log)
	if err := h.readConfig(); err != nil {
		return err
	}
	var err error
	if h.boot, err = h.o.Mac.Host.BootSession(ctx); err != nil {
		return fmt.Errorf("reading the boot session: %w", err)
	}
	// First of all: on a full disk there may be no socket, and a boot has left the
	// packet filter off.
	h.keepFirewall(ctx)
	l, err := h.listen(ctx)
	if err != nil {
		return err
	}
	h.log.Info("hostd starts", "build", h.o.Build, "boot", h.boot)
	if err := h.serveAndWatch(ctx, l); err != nil {
		return err
	}
	h.log.Info("hostd stops, the firewall stays")
	return nil
}

// serveAndWatch serves and watches until ctx ends, or serving fails.
func (h *hostd) serveAndWatch(ctx context.Context, l *net.UnixListener) error {
	ctx, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- h.serve(ctx, l)
	}()
	h.watch(ctx)
	return <-served
}

// troubles that hostd may have, by what they are about. The order is the one in
// which they are told.
const (
	aboutConfig   = "configuration"
	aboutFirewall = "firewall"
	aboutSession  = "console session"
	aboutSSH      = "ssh server"
)

func newHostd(o options, log *slog.Logger) *hostd {
	return &hostd{o: o.withDefaults(), log: log, troubles: map[string]string{}}
}

type hostd struct {
	o    options
	log  *slog.Logger
	boot string

	// arming keeps the minute's proof and those that are asked for apart.
	arming sync.Mutex

	mu       sync.Mutex // guards what follows
	config   document.AgentConfig
	hash     string
	provedAt time.Time
	session  bool
	troubles map[string]string

	// Only the watch touches these.
	absentSince time.Time
	restarts    int // of loginwindow, since there was a session
	ssh         sshWatch
}

// watch looks at everything until ctx ends.
func (h *hostd) watch(ctx context.Context) {
	for ctx.Err() == nil {
		h.checkAll(ctx)
		if h.o.Mac.Clock.Sleep(ctx, interval) != nil {
			return
		}
	}
}

// checkAll looks at everything once.
func (h *hostd) checkAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	h.recordTrouble(ctx, aboutConfig, h.readConfig())
	h.keepFirewall(ctx)
	h.recordTrouble(ctx, aboutSession, h.keepSession(ctx, h.wanted()))
	h.recordTrouble(ctx, aboutSSH, h.watchSSH(ctx))
}

// recordTrouble remembers what is wrong about something and logs when that changes. When ctx
// has ended, nothing was found out.
func (h *hostd) recordTrouble(ctx context.Context, about string, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	before, now := h.troubles[about], ""
	if err != nil {
		now = err.Error()
	}
	switch {
	case before == now:
	case now == "":
		delete(h.troubles, about)
		h.log.Info("well again", "what", about)
	default:
		h.troubles[about] = now
		h.log.Warn("trouble", "what", about, "err", now)
	}
}

// readConfig reads the file again, which converge replaces. When it cannot be read,
// the one before goes on.
func (h *hostd) readConfig() error {
	f, err := h.o.Mac.Files.Open(h.o.ConfigFile)
	if err != nil {
		return fmt.Errorf("opening the configuration: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, document.MaxSize))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	var c document.AgentConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("%s is no configuration: %w", h.o.ConfigFile, err)
	}
	if c.Schema != document.ConfigSchema {
		return fmt.Errorf("%s has schema %.64q, this build reads %q", h.o.ConfigFile, c.Schema, document.ConfigSchema)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if hash := document.Hash(data); hash != h.hash {
		h.log.Info("configuration read", "hash", hash)
		h.config, h.hash = c, hash
	}
	return nil
}

func (h *hostd) wanted() document.AgentConfig {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.config
}

// keepFirewall proves the firewall where there is to be one. What is wrong is noted.
func (h *hostd) keepFirewall(ctx context.Context) {
	if h.wanted().Mac.Network.Subnet == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, armTimeout)
	defer cancel()
	_ = h.armFirewall(ctx)
}

// armFirewall proves the firewall, and mends it first where that is needed.
func (h *hostd) armFirewall(ctx context.Context) error {
	h.arming.Lock()
	defer h.arming.Unlock()
	c := h.wanted()
	err := firewall.Arm(ctx, h.o.Mac, firewall.PolicyOf(c.Host, c.Mac, c.Kubelet))
	h.recordTrouble(ctx, aboutFirewall, err)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.provedAt = h.o.Mac.Clock.Now()
	return nil
}

// answer says how things are.
func (h *hostd) answer(err error) document.HostdAnswer {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := document.HostdAnswer{
		Health:      document.Health{Build: h.o.Build, ConfigHash: h.hash, PID: os.Getpid()},
		BootSession: h.boot, Session: h.session,
	}
	if err != nil {
		a.Error = err.Error()
	}
	if !h.provedAt.IsZero() {
		a.FirewallProvedAt = h.provedAt.UTC().Format(time.RFC3339)
	}
	for _, about := range []string{aboutConfig, aboutFirewall, aboutSession, aboutSSH} {
		if t := h.troubles[about]; t != "" {
			a.Troubles = append(a.Troubles, about+": "+t)
		}
	}
	return a
}

// encode is an answer as one line.
func encode(a document.HostdAnswer) ([]byte, error) {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(a); err != nil {
		return nil, fmt.Errorf("encoding an answer: %w", err)
	}
	return b.Bytes(), nil
}
