// Package firewall holds the rules that a Mac gets around its guests to what they
// promise: not by their text but by what reaches what, on the packet filter and the
// sharing service of a simulated Mac, in both address families.
package firewall
