// Package volume makes the volumes of Pods on the host and says how the guest
// finds them: which directories are shared with it and which links it needs. What
// is secret lies on a RAM disk. Where contents come from is package objects' work,
// running the script in the guest and waking up for changes package pod's.
package volume
