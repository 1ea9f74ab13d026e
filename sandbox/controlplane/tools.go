//go:build tools

package main

import _ "sigs.k8s.io/cluster-api/core" // built from here as its own binary, at this module's versions
