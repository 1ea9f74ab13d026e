// Package state decides about one Pod: how to go on after the agent was restarted,
// what an exit means, what the status says and that it never goes back. Its functions
// are pure; a Record is what a checkpoint keeps of a Pod.
package state
