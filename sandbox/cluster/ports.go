package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
)

// freePorts returns n different TCP ports that nobody listens on. They are held together until all are known, and
// free afterwards: a listener elsewhere can still take one, which shows in portTaken.
func freePorts(ctx context.Context, n int) (ports []int, err error) {
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			err = errors.Join(err, listener.Close())
		}
	}()
	for range n {
		// All addresses, as core's webhooks listen on all of them.
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":0")
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		held = append(held, listener)
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// portTaken tells whether somebody listens on port.
func portTaken(ctx context.Context, port int) bool {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return true
	}
	return listener.Close() != nil
}
