// Package node keeps the Node object of this Mac: made once with a join permit,
// never made again without another; its status and its lease.
//
// What to do about the Node is decided in decide.go and described in describe.go,
// both without I/O; register.go does it, status.go and lease.go keep it alive. The
// labels and taints of a Node that exists are the provider's business: a node may
// not loosen its own.
package node
