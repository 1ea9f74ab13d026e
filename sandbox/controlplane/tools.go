//go:build tools

package main

// Built from here as their own binaries, at this module's versions.
import (
	_ "k8s.io/kubernetes/test/e2e"
	_ "k8s.io/kubernetes/test/images/agnhost"
	_ "sigs.k8s.io/cluster-api/core"
)
