package scaleway

import (
	"slices"
	"strings"
)

// domain is the vendor's, in metadata and in the names of resources.
const domain = "scw.eu"

// shop is what the vendor sells: types of servers, their stock and prices, images.
type shop struct {
	*world
	catalogue Catalogue
}

// metadata is what SDK 1.38 and later ask for to name resources.
func (s *shop) metadata(*call) reply {
	return ok(map[string]string{"platform": "external", "partition": "scw", "domain": domain})
}

func (s *shop) listServerTypes(c *call) reply {
	list := serverTypeListBody{ServerTypes: []serverTypeBody{}}
	for _, t := range s.catalogue.Types {
		if slices.Contains(t.Zones, c.zone) {
			list.ServerTypes = append(list.ServerTypes, s.catalogue.renderType(t, c.zone))
		}
	}
	return ok(list)
}

func (s *shop) getServerType(c *call) reply {
	t, found := s.catalogue.serverType(c.id, c.zone)
	if !found {
		return notFound("server_type", c.id) // INF
	}
	return ok(s.catalogue.renderType(t, c.zone))
}

func (s *shop) listOS(c *call) reply {
	matching := slices.DeleteFunc(slices.Clone(s.catalogue.OSes), func(o OS) bool {
		wantType, wantName := c.query.Get("server_type"), c.query.Get("name")
		return wantType != "" && !slices.Contains(o.Types, wantType) ||
			wantName != "" && !nameMatches(o, wantName)
	})
	shown, refused := page(s.world, c, matching)
	if refused != nil {
		return *refused
	}
	list := osListBody{OS: []osBody{}, TotalCount: len(matching)}
	for _, o := range shown {
		body := renderOS(o, c.zone, true)
		// The order changes from call to call: recorded.
		s.dice.Shuffle(len(body.SupportedTypes), func(i, j int) {
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

func (s *shop) getOS(c *call) reply {
	o, found := s.catalogue.osByID(c.id)
	if !found {
		return notFound("os", c.id) // INF
	}
	return ok(renderOS(o, c.zone, false))
}
