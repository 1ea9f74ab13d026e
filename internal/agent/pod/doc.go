// Package pod makes the Pods of this Node into virtual machines: one worker for
// each Pod UID, from admission over pull, clone and run to a deletion that ends.
//
// A worker is a sequence, to be read in this order: supervisor.go (the watch of Pods),
// worker.go, sync.go (from admission on), restart.go (attempt after attempt, as
// restartPolicy asks), attempt.go (one VM), watch.go (its firewall, its commands, its
// exit), terminate.go (everything is taken away).
// restore.go and reattach.go go on with what an earlier agent left. Each part that
// the worker uses has its own fields: the Pod object (object.go), its record
// (progress.go), what is told of it (report.go), admission (admit.go), inputs
// (inputs.go, volumes.go), the image (pull.go), the place among the guests
// (licenseslot.go), commands in the guest (guestcommands.go; multicontainer.go for several containers).
//
// Decisions are pure functions in packages admission and state. What must be
// remembered is in a checkpoint on the disk, written before each side effect. A VM is
// named tk-<uid>-<attempt>; other names are never touched.
//
// VMs outlive the agent: when the context given to Run ends, workers leave them
// running, and the next agent's workers find them by checkpoint and lock.
package pod
