package tart

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// joinNetwork tells the Mac that a guest of the shared network starts, and what
// the network's settings are. The guest has left when the returned end of the
// line is closed, which the kernel does where run is killed. Without a Mac around
// there is nothing to tell.
func joinNetwork(guest string) (io.Closer, network, error) {
	if _, err := os.Stat(wire.SocketPath); errors.Is(err, fs.ErrNotExist) {
		return io.NopCloser(nil), network{}, nil
	}
	line, err := wire.Dial()
	if err != nil {
		return nil, network{}, fmt.Errorf("joining the shared network: %w", err)
	}
	var a wire.Answer
	err = line.Send(wire.Call{Network: &wire.NetworkCall{Guest: guest}})
	if err == nil {
		_, err = line.Receive(&a)
	}
	switch {
	case err == nil && a.Error != "":
		err = errors.New(a.Error)
	case err == nil && a.Network == nil:
		err = errors.New("the Mac does not know its network")
	}
	if err != nil {
		_ = line.Close()
		return nil, network{}, fmt.Errorf("joining the shared network: %w", err)
	}
	return line, network{gateway: a.Network.Gateway, leaseSeconds: a.Network.LeaseSeconds}, nil
}
