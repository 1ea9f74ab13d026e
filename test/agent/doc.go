// Package agent tests the node agent as one process against a real control plane:
// with a node's rights and no others, over a simulated tart, on a host that a few
// scripts play.
package agent
