// Package chaos lets a seeded chance do to node agents what hosts, networks and
// people do to them: it kills agents, shims, machines and guests, cuts and silences
// the way to the API server, fills the disk, lets tart fail and Macs lose their
// power, while Pods come and go. The control plane, the agent and its shims are the
// real ones; tart and macOS are simulated.
//
// A history is the life of one Mac, some rounds long; its seed decides what is done
// to it, not how the processes interleave, so that a seed that failed once may need
// a few tries to fail again. After each round the Mac is left alone and must come to
// rest. What must hold then, and all the time, is in promises_test.go.
//
// The clock is not made to jump: the agent takes it from the kernel, and a process
// alone cannot be given another wall clock.
package chaos
