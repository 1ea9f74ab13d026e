// Package fidelity holds no code but tests: what is believed of sudo and sshd, on
// which the way into a Mac rests, against the real programs of nearly the same
// releases as macOS has, with an account of our own behind them that counts how
// often a password is looked at and can be locked. The snippets that the manager
// sends run here unchanged.
//
// The tests need root, and OpenSSH's server, sudo, zsh and dash; they say what is
// missing and skip otherwise. They run in namespaces of their own: no file and no
// account of the machine is touched. What the simulated Mac makes of the same is
// package stage0's.
package fidelity
