// Package logs reads the log of one container as `kubectl logs` shows it: entries in
// the format of the CRI, "<time> <stream> <F or P> <content>", in a file and its
// rotations <file>.1, <file>.2 …, the newest first. It reads while the file is
// written and rotated, and follows it across rotations. Who writes logs is left to
// package shim, which containers there are to package pod.
package logs
