package host

import infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"

// Wanted reports that a live Machine is about to take a host that nobody has claimed:
// its hostRef names the host. A wish for a host in the pool takes nothing from it,
// unless the server bears exactly this Machine's name.
func Wanted(h *Host, machines []infrav1.ScalewayAppleSiliconMachine, prefixes ...string) bool {
	meant, named := meantBy(h, machines)
	return named || meant && !InPool(h.Status.Server.Name, h.Spec.ServerID, prefixes...)
}

// PoolNameDoubtful reports that the server's name puts the host into the pool, is not
// the one on record, and may be of the time before a live Machine got the server: lists
// lag (ListLag), and a Host that was made again remembers no claim. The other Machines
// must not take it before the server itself was read.
func PoolNameDoubtful(h *Host, recorded string, machines []infrav1.ScalewayAppleSiliconMachine, prefixes ...string) bool {
	meant, named := meantBy(h, machines)
	name := h.Status.Server.Name
	return meant && !named && name != recorded && InPool(name, h.Spec.ServerID, prefixes...)
}

// meantBy reports whether a Machine's hostRef names the host, and whether the server
// bears the name of one of these.
func meantBy(h *Host, machines []infrav1.ScalewayAppleSiliconMachine) (meant, named bool) {
	for i := range machines {
		if m := &machines[i]; m.Spec.HostRef != nil && m.Spec.HostRef.Name == h.Name {
			meant, named = true, named || m.Name == h.Status.Server.Name
		}
	}
	return meant, named
}
