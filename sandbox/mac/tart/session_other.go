//go:build !linux

package tart

// needSession never refuses: simulated Macs run on Linux only.
func needSession() error { return nil }

// macOSVersion is not known outside a simulated Mac.
func macOSVersion() string { return "" }
