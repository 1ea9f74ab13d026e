// Package schedule proves the promises about hosts. It runs the real reconcilers
// over an API server, a vendor and Macs in memory, under one virtual clock, in
// orders that a seed decides: who runs next, which call fails before or after its
// effect, who dies, who leads, what people do meanwhile. After every step it
// checks the promises against the truth: the vendor's servers, the Macs' disks,
// the Nodes and the objects. In every second history one of the people is a cluster
// administrator who copies, makes up, renames, restores and deletes objects, past all
// policies; who rightfully has which Mac meanwhile is kept in titles_test.go. In one of
// four the two managers of a cluster have a namespace each, as two releases do. It
// replaces work queues and watches by chance, and leaves admission, real watches and
// real Macs to the other tests.
package schedule
