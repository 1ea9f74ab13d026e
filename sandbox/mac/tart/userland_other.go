//go:build !linux

package tart

// userland is not needed where guests have no inside.
func userland() string { return "/" }
