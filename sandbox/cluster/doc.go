// Package cluster builds, starts and stops a real Kubernetes control plane with Cluster API's core on one machine.
//
// Build compiles the multi-call binary of sandbox/controlplane and core's manager into a cache, once for each state of
// their sources. Start runs both as subprocesses, applies core's CRDs and webhooks, and returns when the webhooks
// answer. The same binary, by links, is what envtest wants, and kubectl.
//
// Nobody is bound to anything beyond Kubernetes' defaults: rights for a manager, approval of certificate requests,
// CRDs of providers are left to the caller. Linux only; elsewhere Build and Start say so.
package cluster
