// Package operate holds the pages of the book that programs read, too: what they say about
// a reason or a recipe is written once, there.
package operate

import _ "embed" // for the pages

// Reasons is the page of all reasons: what each means, and what to do.
//
//go:embed reasons.md
var Reasons string

// Hosts is the page of recipes for Macs that need a person.
//
//go:embed hosts.md
var Hosts string

// Rollouts is the page about changes of a fleet, and when they stop.
//
//go:embed rollouts.md
var Rollouts string
