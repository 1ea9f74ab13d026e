// Package agent is the node agent, `tart-kubelet run`: it puts its parts together
// and holds them until it is told to stop. What the parts do is in the packages
// below: identity, node, pod with image and slot, vm, shim and hostos.
//
// It runs as the console user, reads what converge wrote, and needs no rights in
// the cluster but those of a node. When it stops, its virtual machines go on.
package agent
