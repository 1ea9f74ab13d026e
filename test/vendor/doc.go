// Package vendor holds the tests of our Scaleway client against the simulated
// vendor: two readings of the same API, written apart, that must agree.
package vendor
