// Package world composes the sandbox: a real control plane with Cluster API core
// (sandbox/cluster), the simulated vendor (sandbox/scaleway), simulated Macs
// (sandbox/mac), and the manager as a process with exactly the rights and flags
// that the chart gives it. Everything runs on one Linux machine without root.
//
// It knows the product from outside only: its binaries, its chart, its API. What
// is shown to people is the CLI's.
package world
