// Package pod makes the Pods of this Node into virtual machines: one worker for
// each Pod UID, from admission over pull, clone and run to a deletion that ends.
//
// The life of a Pod is sequential code: live.go goes from attempt to attempt,
// attempt.go makes a machine, inside.go has commands run in its guest, finish.go
// takes everything away. What it needs to decide is in pure functions beside it
// (admit*.go, shape.go, resume.go, ends.go, view.go, render.go, floor.go), what it
// must remember in a journal on the disk, written before each side effect. A machine
// is named tk-<uid>-<attempt>; other names are never touched.
//
// Machines outlive the agent: when the context given to Run ends, workers let go
// of them, and the next agent's workers find them by journal and lock. How a
// machine is cloned or run is left to a vm.Driver and package shim, how its guest
// takes commands to the shim, what a Pod is given to the packages below this one.
package pod
