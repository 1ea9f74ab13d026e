package recorded

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// comparison compares the answers of one recording with the simulator's.
type comparison struct {
	t *testing.T
	// older accepts keys in our answers that the recorded ones do not have yet.
	older bool
	// moved are keys whose values, or everything below them, changed since the
	// recording: only the types are compared.
	moved []string
	// ids maps recorded identifiers to ours.
	ids map[string]string
}

var (
	datePattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$`)
	vncPattern  = regexp.MustCompile(`^vnc://m1:(.{12})@([0-9.]+):\d+$`)
)

const sealed = "<sealed>"

// newer are keys that the SDK has today and no recording yet.
var newer = []string{"srn", "kext_enabled", "zone"}

// bodies compares two JSON bodies.
func (c *comparison) bodies(where, recorded, ours string) {
	c.t.Helper()
	if recorded == "" || ours == "" {
		if recorded != ours {
			c.t.Errorf("%s: recorded %q, ours %q", where, recorded, ours)
		}
		return
	}
	var r, o any
	if err := json.Unmarshal([]byte(recorded), &r); err != nil {
		c.t.Fatalf("%s: recorded: %v", where, err)
	}
	if err := json.Unmarshal([]byte(ours), &o); err != nil {
		c.t.Fatalf("%s: ours: %v", where, err)
	}
	c.values(where, "", r, o)
}

func (c *comparison) values(where, key string, recorded, ours any) {
	c.t.Helper()
	if want, got := fmt.Sprintf("%T", recorded), fmt.Sprintf("%T", ours); want != got {
		c.t.Errorf("%s: recorded %v, ours %v", where, recorded, ours)
		return
	}
	switch r := recorded.(type) {
	case map[string]any:
		c.objects(where, r, ours.(map[string]any))
	case []any:
		c.lists(where, key, r, ours.([]any))
	case string:
		c.texts(where, key, r, ours.(string))
	default:
		if recorded != ours && !slices.Contains(c.moved, key) {
			c.t.Errorf("%s: recorded %v, ours %v", where, recorded, ours)
		}
	}
}

func (c *comparison) objects(where string, recorded, ours map[string]any) {
	c.t.Helper()
	want, got := slices.Sorted(maps.Keys(recorded)), slices.Sorted(maps.Keys(ours))
	if c.older {
		got = slices.DeleteFunc(got, func(k string) bool { return !slices.Contains(want, k) })
	}
	got = slices.DeleteFunc(got, func(k string) bool { return slices.Contains(newer, k) && !slices.Contains(want, k) })
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("%s: keys differ (- recorded, + ours):\n%s", where, diff)
	}
	for _, key := range want {
		if member, found := ours[key]; found {
			c.member(where+"."+key, key, recorded[key], member)
		}
	}
}

// member compares one member; below a moved object, all values may differ.
func (c *comparison) member(where, key string, recorded, ours any) {
	c.t.Helper()
	nested, isObject := recorded.(map[string]any)
	if !isObject || !slices.Contains(c.moved, key) {
		c.values(where, key, recorded, ours)
		return
	}
	below := *c
	below.moved = slices.Collect(maps.Keys(nested))
	below.values(where, key, recorded, ours)
}

func (c *comparison) lists(where, key string, recorded, ours []any) {
	c.t.Helper()
	if slices.Contains(c.moved, key) {
		return
	}
	if len(recorded) != len(ours) {
		c.t.Errorf("%s: recorded %d elements, ours %d", where, len(recorded), len(ours))
		return
	}
	switch key {
	case "supported_server_types", "compatible_server_types":
		// Recorded in a different order each time.
		recorded, ours = sortedByText(recorded), sortedByText(ours)
	}
	for i := range recorded {
		c.values(fmt.Sprintf("%s[%d]", where, i), "", recorded[i], ours[i])
	}
}

func sortedByText(list []any) []any {
	return slices.SortedFunc(slices.Values(list), func(a, b any) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
}

// texts compares strings: those that differ by nature by their form, all others,
// every enum among them, by value.
func (c *comparison) texts(where, key, recorded, ours string) {
	c.t.Helper()
	fine := recorded == ours
	switch key {
	case "id", "resource_id":
		fine = c.sameID(recorded, ours)
	case "created_at", "updated_at", "deletable_at":
		fine = datePattern.MatchString(recorded) && datePattern.MatchString(ours)
	case "ip":
		address, err := netip.ParseAddr(ours)
		fine = err == nil && address.Is4()
	case "sudo_password":
		fine = fine || recorded != sealed && ours != sealed && len(ours) == len(recorded)
	case "vnc_url":
		fine = fine || vncPattern.MatchString(recorded) && vncPattern.MatchString(ours)
	case "description", "release_notes_url":
		// The simulator's catalogue has words of its own.
		fine = (recorded == "") == (ours == "")
	}
	if !fine && !slices.Contains(c.moved, key) {
		c.t.Errorf("%s: recorded %q, ours %q", where, recorded, ours)
	}
}

// sameID learns which of our identifiers stands for a recorded one, and holds on to it.
func (c *comparison) sameID(recorded, ours string) bool {
	known, found := c.ids[recorded]
	if !found {
		c.ids[recorded] = ours
		return true
	}
	return known == ours
}

// translate puts our identifiers in the place of recorded ones.
func (c *comparison) translate(text string) string {
	for recorded, ours := range c.ids {
		text = strings.ReplaceAll(text, recorded, ours)
	}
	return text
}
