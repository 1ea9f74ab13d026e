// Package conformance runs Kubernetes' own end-to-end suite, as its module ships it, on
// the sandbox's Macs. `go test` runs a few specs; `make conformance` runs them all,
// writes JUnit, and the table in docs/conformance.md.
//
// specs.yaml says which specs a Mac is held to and why some of those are skipped. What the
// cluster of this suite has on top of a sandbox is policy.yaml.
package conformance
