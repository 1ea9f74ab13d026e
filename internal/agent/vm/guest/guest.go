// Package guest speaks to the agent inside a guest, tart-guest-agent, as a client
// of its published contract: gRPC over a Unix socket of the host that leads to the
// guest. It levels the generations of that agent that images carry. When to wait
// for a guest and what to run in it is left to the callers.
package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/macfleet/macfleet/internal/agent/hostos"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// The methods of the guest's agent; its service is in no package.
const (
	methodExec      = "/Agent/Exec"
	methodResolveIP = "/Agent/ResolveIP"
)

// messageLimit bounds one message from the guest, in bytes. The agent sends
// output in pieces of four kibibytes.
const messageLimit = 4 << 20

// secondTry is how long a guest whose last connection failed may take for the next.
const secondTry = 100 * time.Millisecond

// Options of a Client.
type Options struct {
	// AnswerTimeout bounds how long a guest may take to answer a connection or a
	// question; commands are not bounded by it. Default 5 s.
	AnswerTimeout time.Duration
	// HeldTimeout is how long a call may outlast its command, whose children hold the
	// outputs. Default 10 s.
	HeldTimeout time.Duration
	// KnockInterval is how often the guest is asked something while a command runs.
	// Default 15 s.
	KnockInterval time.Duration
	// CloseTimeout bounds how long Close waits for calls, which an output may hold up.
	// Default 1 s.
	CloseTimeout time.Duration
}

// Client implements vm.Guest. It connects when it is first used, and again after
// the connection broke.
type Client struct {
	conn                 *grpc.ClientConn
	answer, held, knocks time.Duration
	// apart is how long one of a command's two outputs may go on after the other.
	apart, closing time.Duration
	pipes          string // the guest's folder for them

	// life is ended by Close, and with it every call of a command.
	life  context.Context
	end   context.CancelCauseFunc
	calls sync.WaitGroup

	mu sync.Mutex
	// dials counts connections; what was learnt of the agent is good for one.
	dials   int
	learnt  int
	ability abilities
}

var _ vm.Guest = (*Client)(nil)

// Dial returns a client for the socket, which need not be there yet. It never
// blocks and opens nothing. The path may be of any length.
func Dial(socket string, o Options) *Client {
	o.AnswerTimeout = cmp.Or(o.AnswerTimeout, 5*time.Second)
	c := &Client{
		answer: o.AnswerTimeout, held: cmp.Or(o.HeldTimeout, 10*time.Second), knocks: cmp.Or(o.KnockInterval, 15*time.Second),
		apart: cmp.Or(o.HeldTimeout, 10*time.Second), closing: cmp.Or(o.CloseTimeout, time.Second), pipes: "/tmp",
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		c.mu.Lock()
		c.dials++
		c.mu.Unlock()
		return hostos.DialUnix(ctx, socket)
	}
	conn, err := grpc.NewClient(
		"passthrough:///guest",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial),
		grpc.WithConnectParams(grpc.ConnectParams{
			// A guest that boots is asked often: the socket is local.
			Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: o.AnswerTimeout,
		}),
		// No keepalive: agents refuse frequent pings, and a guest too busy to answer
		// them is no reason to give its command up.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{}), grpc.MaxCallRecvMsgSize(messageLimit)),
	)
	if err == nil {
		c.conn = conn
	}
	return c
}

// Close gives the connection up. Commands that run are killed by the guest, as each is
// cancelled first: that the connection ends does not reach the guest, since tart keeps
// its own to there.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	c.cancelCalls()
	if err := c.conn.Close(); err != nil && status.Code(err) != codes.Canceled {
		return fmt.Errorf("closing the connection to the guest: %w", err)
	}
	return nil
}

// errClosed is why calls are given up by Close.
var errClosed = errors.New("the connection to the guest was closed")

// cancelCalls returns once the end of every call is on its way.
func (c *Client) cancelCalls() {
	c.mu.Lock()
	c.end(errClosed)
	c.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		c.calls.Wait()
		close(gone)
	}()
	late := time.NewTimer(c.closing)
	defer late.Stop()
	select {
	case <-gone:
	case <-late.C:
	}
}

// begin has a call end with the client, by cancel, until it is done. None begins on a
// closed client.
func (c *Client) begin(cancel context.CancelCauseFunc) (done func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, fmt.Errorf("starting a command in the guest: %w: %w", vm.ErrGuestUnreachable, errClosed)
	}
	c.calls.Add(1)
	stop := context.AfterFunc(c.life, func() { cancel(errClosed) })
	return func() {
		stop()
		c.calls.Done()
	}, nil
}

// Up returns nil once the agent inside runs commands. It asks each time.
func (c *Client) Up(ctx context.Context) error {
	asking, cancel := context.WithTimeout(ctx, c.answer)
	defer cancel()
	_, err := c.ready(asking)
	return err
}

// Address asks the guest for its own address on the network of its host.
func (c *Client) Address(ctx context.Context) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, c.answer)
	defer cancel()
	if err := c.connected(ctx); err != nil {
		return netip.Addr{}, err
	}
	var out addressResponse
	if err := c.conn.Invoke(ctx, methodResolveIP, &addressRequest{}, &out); err != nil {
		// The guest may notice first that it is late.
		if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded || ctx.Err() != nil {
			return netip.Addr{}, fmt.Errorf("asking the guest for its address: %w: %w", vm.ErrGuestUnreachable, err)
		}
		return netip.Addr{}, fmt.Errorf("asking the guest for its address: %w", err)
	}
	addr, err := netip.ParseAddr(out.IP)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading the guest's address: %w", err)
	}
	return addr, nil
}

// connected connects unless there is a connection, and fails with
// vm.ErrGuestUnreachable when that fails. Nothing is asked of the guest before.
func (c *Client) connected(ctx context.Context) error {
	if c.conn == nil {
		return fmt.Errorf("connecting to the guest: %w", vm.ErrGuestUnreachable)
	}
	failed := false
	for {
		state := c.conn.GetState()
		switch {
		case state == connectivity.Ready:
			return nil
		case state == connectivity.Idle:
			c.conn.Connect()
		case state == connectivity.Shutdown, failed:
			return fmt.Errorf("connecting to the guest: %w", vm.ErrGuestUnreachable)
		case state == connectivity.TransientFailure:
			// The last try failed, and from then on only a success changes the state:
			// the next try has this long.
			failed = true
			c.conn.ResetConnectBackoff()
			late, cancel := context.WithTimeout(ctx, secondTry)
			c.conn.WaitForStateChange(late, state)
			cancel()
			continue
		}
		if !c.conn.WaitForStateChange(ctx, state) {
			return fmt.Errorf("connecting to the guest: %w: %w", vm.ErrGuestUnreachable, context.Cause(ctx))
		}
	}
}
