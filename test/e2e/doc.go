// Package e2e runs the whole system on the sandbox: a real API server, Cluster API
// core, the manager and the agents as they ship, with the vendor and the Macs
// simulated. Its tests look through the Kubernetes API and the vendor's journal,
// as an operator and an auditor would.
package e2e
