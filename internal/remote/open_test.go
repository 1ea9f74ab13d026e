package remote

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/crypto/ssh"
)

// deafConn is a connection that never answers who asks for a channel, not even when
// it is closed.
type deafConn struct {
	ssh.Conn
	closed chan struct{}
}

func (c deafConn) OpenChannel(string, []byte) (ssh.Channel, <-chan *ssh.Request, error) { select {} }

func (c deafConn) Close() error { close(c.closed); return nil }

func TestAChannelThatNeverOpensHoldsNobody(t *testing.T) {
	conn := deafConn{closed: make(chan struct{})}
	s := &Session{client: &ssh.Client{Conn: conn}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var unreachable *Unreachable
	if _, err := s.open(ctx); !errors.As(err, &unreachable) || unreachable.Phase != PhaseSession || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-conn.closed
}
