package scaleway

import (
	"fmt"

	"github.com/google/uuid"
)

// Private networks and runners are not simulated: nothing can be attached, so
// that whoever lists finds none, whatever vpc_status says (recorded with the
// feature on and nothing attached).

type privateNetworkListBody struct {
	PrivateNetworks []struct{} `json:"server_private_networks"`
	TotalCount      int        `json:"total_count"`
}

type privateNetworkSetBody struct {
	PrivateNetworks []struct{} `json:"server_private_networks"`
}

func (a *serverAPI) listPrivateNetworks(c *call) reply {
	none := []struct{}{}
	never := func(struct{}, struct{}) int { return 0 }
	refused := sorted(c, none, map[string]func(a, b struct{}) int{"created_at": never, "updated_at": never})
	if refused != nil {
		return *refused
	}
	if refused := uuids(c, "server_id", "private_network_id", "organization_id", "project_id", "ipam_ip_ids"); refused != nil {
		return *refused
	}
	shown, refused := page(a.world, c, none)
	if refused != nil {
		return *refused
	}
	return ok(privateNetworkListBody{PrivateNetworks: shown})
}

// uuids refuses filters that are no identifiers (INF).
func uuids(c *call, names ...string) *reply {
	for _, name := range names {
		for _, id := range c.query[name] {
			if uuid.Validate(id) != nil {
				refused := notUUID(name)
				return &refused
			}
		}
	}
	return nil
}

// setPrivateNetworks can make true only that nothing is attached.
func (a *serverAPI) setPrivateNetworks(c *call, _ *server) reply {
	var request struct {
		Wanted map[string][]string `json:"per_private_network_ipam_ip_ids"`
	}
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	if len(request.Wanted) > 0 {
		return notServed(fmt.Sprintf("%s with per_private_network_ipam_ip_ids of %d private networks", c.name, len(request.Wanted)))
	}
	return ok(privateNetworkSetBody{PrivateNetworks: []struct{}{}})
}

// noPrivateNetwork answers for one that is not attached (INF).
func (a *serverAPI) noPrivateNetwork(c *call, _ *server) reply {
	if uuid.Validate(c.network) != nil {
		return notUUID("private_network_id")
	}
	return notFound("server_private_network", c.network)
}

type runnerListBody struct {
	Runners    []struct{} `json:"runners"`
	TotalCount int        `json:"total_count"`
}

func (a *serverAPI) listRunners(c *call) reply {
	if refused := uuids(c, "server_id", "organization_id", "project_id"); refused != nil {
		return *refused
	}
	shown, refused := page(a.world, c, []struct{}{})
	if refused != nil {
		return *refused
	}
	return ok(runnerListBody{Runners: shown})
}

// noRunner answers for a runner that is not there, as recorded for a deleted one:
// the resource is called server. Other actions than read are INF.
func (a *serverAPI) noRunner(action string) handler {
	return func(c *call) reply {
		if uuid.Validate(c.id) != nil {
			return notUUID("runner_id")
		}
		return permissionsDenied(action)
	}
}
