package scaleway

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
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
		rand.Shuffle(len(body.SupportedTypes), func(i, j int) {
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

// maxPageSize is the documented bound; a larger wish gets it (INF).
const maxPageSize = 100

// page cuts the page that a call asks for, or refuses the wish.
func page[T any](v *Vendor, c *call, all []T) ([]T, *reply) {
	number, refused := positive(c, "page", 1)
	if refused != nil {
		return nil, refused
	}
	size, refused := positive(c, "page_size", v.opts.PageSize)
	if refused != nil {
		return nil, refused
	}
	size = min(size, maxPageSize)
	start := min((number-1)*size, len(all))
	return all[start:min(start+size, len(all))], nil
}

func positive(c *call, name string, fallback int) (int, *reply) {
	text := c.query.Get(name)
	if text == "" {
		return fallback, nil
	}
	// 31 bits: the parameter is an int32, and a product of two stays in range.
	value, err := strconv.ParseInt(text, 10, 32)
	if err != nil || value < 1 {
		refused := invalidArgument(name, "constraint", "value must be greater than 0")
		return 0, &refused
	}
	return int(value), nil
}

// sorted orders a list by an order_by value such as created_at_desc; the fields
// are given by name.
func sorted[T any](c *call, list []T, fields map[string]func(a, b T) int) *reply {
	order := cmp.Or(c.query.Get("order_by"), "created_at_asc")
	field, direction, _ := cutLast(order, "_")
	compare, known := fields[field]
	if !known || (direction != "asc" && direction != "desc") {
		refused := invalidArgument("order_by", "constraint", "value is not an order of this list")
		return &refused
	}
	slices.SortStableFunc(list, func(a, b T) int {
		if direction == "desc" {
			return compare(b, a)
		}
		return compare(a, b)
	})
	return nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
