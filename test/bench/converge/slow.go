package main

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// slow forwards connections to one address and lets each byte take its time. There
// is no limit to how many are under way.
type slow struct {
	listener net.Listener
	to       string
	delay    time.Duration
	// up and down count bytes to and from the Mac.
	up, down atomic.Int64
	running  sync.WaitGroup
}

func newSlow(to string, delay time.Duration) (*slow, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &slow{listener: l, to: to, delay: delay}
	s.running.Go(s.serve)
	return s, nil
}

func (s *slow) port() int { return s.listener.Addr().(*net.TCPAddr).Port }

func (s *slow) serve() {
	for {
		near, err := s.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", s.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		s.running.Go(func() { s.carry(far, near, &s.up) })
		s.running.Go(func() { s.carry(near, far, &s.down) })
	}
}

// chunk is what arrived together, and when it is due at the other end.
type chunk struct {
	data []byte
	due  time.Time
}

func (s *slow) carry(to, from net.Conn, count *atomic.Int64) {
	under := make(chan chunk, 1<<14)
	go func() {
		defer close(under)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if n > 0 {
				count.Add(int64(n))
				under <- chunk{data[:n], time.Now().Add(s.delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range under {
		time.Sleep(time.Until(c.due))
		if _, err := to.Write(c.data); err != nil {
			break
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	for range under { //nolint:revive // what is still under way has nowhere to go
	}
}

func (s *slow) close() error {
	err := s.listener.Close()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
