// Package env gives a container its environment and its argument vector by the
// rules of a kubelet: every source the API allows, in the same order, with $(VAR)
// expansion. It reads objects through a Source and runs nothing; who hands the
// environment to a guest, and how, is left to package pod.
package env
