// Package stage0 holds no code but tests: package remote and the agent's own
// converge, as they are shipped, against a simulated Mac over real SSH. What
// becomes of the Mac as a node is the end-to-end tests' part.
package stage0
