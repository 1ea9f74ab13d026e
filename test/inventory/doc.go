// Package inventory holds the tests of the host controller against the simulated
// vendor, through the real client: what lists of servers lie about, and what an
// order and a reboot meet on the wire.
package inventory
