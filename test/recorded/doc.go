// Package recorded checks the simulated vendor against recorded traffic of the
// real one. It has tests only: each recording is replayed in its order, under a
// clock stepped by the recorded times, and every answer compared: status, set of
// keys, types, values, order of states.
//
// The recordings are not part of this repository. MACFLEET_RECORDINGS names their
// folder; where there is none, the tests are skipped.
package recorded
