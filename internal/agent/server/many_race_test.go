//go:build race

package server

// manyStreams are far more than are served, and as many as the race detector, which makes
// each handshake of TLS ten times as dear, gets through. make test plays ten thousand
// without it.
const manyStreams = 2_000
