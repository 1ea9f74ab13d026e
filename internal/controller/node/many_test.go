package node

import (
	"testing"

	"github.com/macfleet/macfleet/internal/clienttest"
)

// Each change of a Node looks at all hosts and all Machines: of a thousand, two thousand copies each.
func TestALookCopiesNothingOfTheFleet(t *testing.T) {
	w := newWorld(t, append(cluster(false), node(), sash(claim))...)
	copies := map[string]int{}
	w.r.Client = clienttest.Copies{Client: w.api, Of: copies}
	if _, gone := w.look(); gone || len(copies) != 0 {
		t.Errorf("copied lists: %v, and the Node is gone: %t", copies, gone)
	}
}
