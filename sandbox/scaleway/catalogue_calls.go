package scaleway

import (
	"slices"
	"strings"
)

// metadata is what SDK 1.38 and later ask for to name resources.
func (v *Vendor) metadata(*call) reply {
	return ok(map[string]string{"platform": "external", "partition": "scw", "domain": "scw.eu"})
}

func (v *Vendor) listServerTypes(c *call) reply {
	list := serverTypeListBody{ServerTypes: []serverTypeBody{}}
	for _, t := range v.catalogue.Types {
		if slices.Contains(t.Zones, c.zone) {
			list.ServerTypes = append(list.ServerTypes, v.catalogue.renderType(t))
		}
	}
	return ok(list)
}

func (v *Vendor) getServerType(c *call) reply {
	t, found := v.catalogue.serverType(c.id, c.zone)
	if !found {
		return notFound("server_type", c.id) // INF
	}
	return ok(v.catalogue.renderType(t))
}

func (v *Vendor) listOS(c *call) reply {
	matching := slices.DeleteFunc(slices.Clone(v.catalogue.OSes), func(o OS) bool {
		wantType, wantName := c.query.Get("server_type"), c.query.Get("name")
		return wantType != "" && !slices.Contains(o.Types, wantType) ||
			wantName != "" && !nameMatches(o, wantName)
	})
	shown, refused := page(v, c, matching)
	if refused != nil {
		return *refused
	}
	list := osListBody{OS: []osBody{}, TotalCount: len(matching)}
	for _, o := range shown {
		body := renderOS(o, true)
		// The order changes from call to call: recorded.
		v.dice.Shuffle(len(body.SupportedTypes), func(i, j int) {
			body.SupportedTypes[i], body.SupportedTypes[j] = body.SupportedTypes[j], body.SupportedTypes[i]
		})
		list.OS = append(list.OS, body)
	}
	return ok(list)
}

// nameMatches is documented as a version prefix: 11.1 finds 11.1 and 11.1.2, not
// 11.10. A full name matching itself is INF.
func nameMatches(o OS, want string) bool {
	return o.Name == want || o.Version == want || strings.HasPrefix(o.Version, want+".")
}

func (v *Vendor) getOS(c *call) reply {
	o, found := v.catalogue.osByID(c.id)
	if !found {
		return notFound("os", c.id) // INF
	}
	return ok(renderOS(o, false))
}
