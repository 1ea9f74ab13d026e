//go:build !race

package server

// manyStreams are far more than are served.
const manyStreams = 10_000
