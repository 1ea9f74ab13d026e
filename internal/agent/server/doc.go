// Package server is the kubelet's HTTPS API on a Mac: logs, exec, attach and
// port-forward for kubectl, Pods, statistics and metrics for those who watch over
// nodes. It holds who may ask, what is asked, and how it is answered in the words of a
// kubelet; what runs where, and how a guest is reached, is left to a Backend.
package server
