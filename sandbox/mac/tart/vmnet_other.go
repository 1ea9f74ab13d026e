//go:build !linux

package tart

import "io"

// joinNetwork has nobody to tell: simulated Macs exist on Linux only.
func joinNetwork(string) (io.Closer, network, error) { return io.NopCloser(nil), network{}, nil }
