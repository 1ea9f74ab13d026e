// Package startup holds what must be true of a cluster before a manager works in it:
// its CRDs are those of this build or later ones, and the first system does not run.
// What it finds otherwise is a Refusal, one sentence that says what to type.
package startup

import "fmt"

// Refusal is a state of the cluster in which a manager must not start. Starting
// again does not help; whoever runs the cluster has to decide.
type Refusal struct{ text string }

// Error is one line: what is wrong, where, and what to do.
func (r *Refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return &Refusal{fmt.Sprintf(format, args...)} }
