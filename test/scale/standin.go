package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// standIn is one Mac from one installation to the next.
type standIn struct {
	fleet    *macs
	server   string // its identifier at the vendor
	zone     string
	password string
	listener net.Listener
	config   *ssh.ServerConfig
	ended    chan struct{}
	wait     sync.WaitGroup

	mu          sync.Mutex
	connections map[net.Conn]bool
	disk        disk
}

// disk is what a Mac was told since it was installed.
type disk struct {
	boot string
	// granted: its user is root without a password.
	granted bool
	// staged and installed are builds of the agent, by their SHA-256.
	staged, installed string
	// owner is the Machine that it was first converged for, key the one that signs what it is told.
	owner   string
	key     ed25519.PublicKey
	counter int64
}

var errUnknownKey = errors.New("unknown key")

func newStandIn(ctx context.Context, fleet *macs, install scaleway.Install) (*standIn, error) {
	s := &standIn{
		fleet: fleet, server: install.ServerID, zone: install.Zone, password: install.Password,
		ended: make(chan struct{}), connections: map[net.Conn]bool{}, disk: disk{boot: uuid.NewString()},
	}
	known, err := authorized(install.AuthorizedKeys)
	if err != nil {
		return nil, err
	}
	s.config = &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !slices.Contains(known, string(key.Marshal())) {
			return nil, errUnknownKey
		}
		return &ssh.Permissions{}, nil
	}}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a host key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, fmt.Errorf("making a host key: %w", err)
	}
	s.config.AddHostKey(signer)
	var config net.ListenConfig
	if s.listener, err = config.Listen(ctx, "tcp", net.JoinHostPort(install.IP.String(), strconv.Itoa(fleet.port))); err != nil {
		return nil, fmt.Errorf("answering for server %s: %w", install.ServerID, err)
	}
	s.wait.Go(s.accept)
	return s, nil
}

// authorized are the keys of lines of authorized_keys.
func authorized(lines []string) ([]string, error) {
	var keys []string
	for _, line := range lines {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return nil, fmt.Errorf("reading the vendor's SSH keys: %w", err)
		}
		keys = append(keys, string(key.Marshal()))
	}
	return keys, nil
}

// stop cuts all connections, and returns when nothing is left of the Mac.
func (s *standIn) stop() {
	close(s.ended)
	_ = s.listener.Close()
	s.mu.Lock()
	for conn := range s.connections {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.wait.Wait()
}

func (s *standIn) reboot() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disk.boot = uuid.NewString()
	for conn := range s.connections {
		_ = conn.Close()
	}
}

func (s *standIn) whose() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk.owner
}

func (s *standIn) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.wait.Go(func() { s.serve(conn) })
	}
}

// keep takes a connection down, so that stop can cut it; false when the Mac has ended.
func (s *standIn) keep(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.ended:
		return false
	default:
	}
	s.connections[conn] = true
	return true
}

func (s *standIn) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.connections, conn)
}

func (s *standIn) serve(conn net.Conn) {
	defer conn.Close()
	if !s.keep(conn) {
		return
	}
	defer s.forget(conn)
	_, channels, requests, err := ssh.NewServerConn(conn, s.config)
	if err != nil {
		return // who dialled hears why
	}
	s.wait.Go(func() { ssh.DiscardRequests(requests) })
	for offered := range channels {
		if offered.ChannelType() != "session" {
			_ = offered.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		s.wait.Go(func() { s.session(channel, requests) })
	}
}

// session runs one command.
func (s *standIn) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for request := range requests {
		var wanted struct{ Command string }
		if request.Type != "exec" || ssh.Unmarshal(request.Payload, &wanted) != nil {
			_ = request.Reply(false, nil)
			continue
		}
		_ = request.Reply(true, nil)
		s.wait.Go(func() { ssh.DiscardRequests(requests) })
		exit := s.run(wanted.Command, channel)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(exit)}))
		return
	}
}
