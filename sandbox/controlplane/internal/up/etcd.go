package up

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// clientSocket and peerSocket name the sockets through /proc, relative to the working directory, which is the state
// directory: the name of a Unix socket has at most 107 bytes, however deep a state directory lies.
func clientSocket() *url.URL { return socketURL("etcd.sock") }

func peerSocket() *url.URL { return socketURL("etcd-peer.sock") }

func socketURL(name string) *url.URL {
	return &url.URL{Scheme: "unix", Path: "/proc/self/cwd/" + name}
}

// removeSockets stands in for etcd's own clearing up when the process ends without stopping it.
func removeSockets() {
	for _, socket := range []*url.URL{clientSocket(), peerSocket()} {
		_ = os.Remove(socket.Path) // there is nothing left to do about it, and the next start replaces it
	}
}

// startEtcd runs etcd on Unix sockets alone, and without fsync: a sandbox need not survive a power cut, and start and
// every write get much faster.
func (p *plane) startEtcd(ctx context.Context) error {
	server, err := embed.StartEtcd(etcdConfig(filepath.Join(p.options.Dir, "etcd")))
	if err != nil {
		return fmt.Errorf("starting etcd: %w", err)
	}
	p.stops = append(p.stops, server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		return fmt.Errorf("etcd: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("waiting for etcd: %w", ctx.Err())
	}
	go func() {
		if err, open := <-server.Err(); open && err != nil {
			p.report(context.Background(), "etcd", err)
		}
	}()
	return nil
}

func etcdConfig(dir string) *embed.Config {
	config := embed.NewConfig()
	config.Dir = dir
	config.UnsafeNoFsync = true
	// etcd reports its own orderly stop as three errors; what really fails comes back as an error value.
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.ListenClientUrls = []url.URL{*clientSocket()}
	config.ListenPeerUrls = []url.URL{*peerSocket()}
	// These must look like host:port; a single member never dials them.
	advertised := []url.URL{{Scheme: "http", Host: "localhost:0"}}
	config.AdvertiseClientUrls = advertised
	config.AdvertisePeerUrls = advertised
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return config
}
