// Package stage sets up what tests, chaos and benchmarks of the node agent play on:
// a real control plane, and Macs on which the built agent drives the simulated
// tart. A Mac here is a directory with its own commands, machines and link to the
// API server, so that many of them fit on one Linux machine; what a whole Mac would
// be is left to sandbox/mac.
//
// The package also knows what must hold whatever happens: which statuses of a Pod
// may follow each other, what a node may ask of the API server, and what a Mac
// without Pods may still hold.
package stage
