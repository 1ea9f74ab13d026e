// Package clusterapi runs Cluster API's own end-to-end specs, of the version that macfleet is
// built with, against a sandbox: a module of its own, as they bring clients of container
// engines along. Package conformance starts the sandbox and what this package's test binary is
// told by flags.
//
// Names of specs begin with whose they are: [shipped] is the function of Cluster API's package
// as it is; [framework] is a spec of ours that has Cluster API's framework act and judge, where
// the shipped one insists on Machines of a control plane or on Pods of Linux.
package clusterapi
