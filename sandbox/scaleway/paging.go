package scaleway

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// maxPageSize is the documented bound; a larger wish gets it (INF).
const maxPageSize = 100

// page cuts the page that a call asks for, or refuses the wish.
func page[T any](w *world, c *call, all []T) ([]T, *reply) {
	number, refused := positive(c, "page", 1)
	if refused != nil {
		return nil, refused
	}
	size, refused := positive(c, "page_size", w.opts.PageSize)
	if refused != nil {
		return nil, refused
	}
	size = min(size, maxPageSize)
	if w.knobs.MaxPageSize > 0 {
		size = min(size, w.knobs.MaxPageSize)
	}
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
