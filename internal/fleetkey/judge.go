package fleetkey

import (
	"fmt"
	"slices"
	"strings"
)

// Evidence is what was read, uncached, about a fleet whose key is registered.
type Evidence struct {
	// InUse are the public halves in the fleet's Secret, the one in use first. None:
	// the Secret is gone.
	InUse []string
	// Machines of the fleet.
	Machines []Machine
	// Users are what else would have Macs of this fleet: MachineDeployments, and the
	// Cluster whose name stands for Machines without one. By kind and name.
	Users []string
	// Hosts are claimed from the fleet's namespace by Machines that are gone: they may
	// have been this fleet's, and are not wiped yet.
	Hosts []string
}

// Machine of a fleet.
type Machine struct {
	Name string
	// Bootstrapped: it has a Mac for good.
	Bootstrapped bool
	// Key is the fingerprint of the fleet's key that its Mac was last given.
	Key string
}

// Keep says why a key that we registered stays registered; empty: it is retired.
//
// A fleet is gone when its Secret is, and nothing could have Macs of it, nor a Mac of
// its namespace await its wipe. A key that was replaced stays while a Mac may know
// nothing else.
func Keep(public string, e Evidence) string {
	if InUse(public, e) {
		return "it is in the fleet's Secret"
	}
	if len(e.InUse) > 0 {
		for _, m := range e.Machines {
			if m.Bootstrapped && m.Key != Fingerprint(e.InUse[0]) {
				return fmt.Sprintf("the Mac of Machine %s was not given the new key yet", m.Name)
			}
		}
		return awaited(e.Hosts)
	}
	switch {
	case len(e.Machines) > 0:
		return fmt.Sprintf("the Secret is gone, and Machine %s is of this fleet", e.Machines[0].Name)
	case len(e.Users) > 0:
		return "the Secret is gone, and " + strings.Join(e.Users, ", ") + " may have Macs of this fleet"
	}
	return awaited(e.Hosts)
}

func awaited(hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	return "hosts of its namespace are not released and wiped yet: " + strings.Join(hosts, ", ")
}

// InUse reports that the key is in its fleet's Secret.
func InUse(public string, e Evidence) bool {
	return slices.ContainsFunc(e.InUse, func(line string) bool { return half(line) == half(public) })
}
