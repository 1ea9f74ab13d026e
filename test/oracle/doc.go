// Package oracle plays the same Pods on Kubernetes' own kubelet and on Macs, side by side on one control plane, and
// compares what either tells the API server: every status a Pod has had, and its events.
package oracle
