package scaleway_test

import (
	"context"
	"testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// plugs are Macs with a switch.
type plugs struct {
	*macs
	on map[string]bool
}

func (p plugs) Power(_ context.Context, id string, on bool) (bool, error) {
	p.on[id] = on
	return true, nil
}

func TestAMacIsSwitchedBehindTheVendorsBack(t *testing.T) {
	hardware := plugs{newQuietMacs(), map[string]bool{}}
	w := newWorld(t, scaleway.Options{Hardware: hardware})
	s := w.pool(scaleway.ServerSpec{Name: "mac"})
	for _, step := range []struct {
		path, body string
		status     int
	}{
		{"/sandbox/macs/mac", `{"on":true}`, 204},
		{"/sandbox/macs/" + s.ID, `{"on":false}`, 204},
		{"/sandbox/macs/mac", `{}`, 400},
		{"/sandbox/macs/other", `{"on":true}`, 404},
	} {
		if response, body := w.raw("PUT", step.path, "", step.body); response.StatusCode != step.status {
			t.Errorf("%s %s: %d %s", step.path, step.body, response.StatusCode, body)
		}
	}
	if on, told := hardware.on[s.ID]; on || !told {
		t.Errorf("on %v, told %v; want it off", on, told)
	}
	if view, _ := w.Server(s.ID); view.Status != scaleway.StatusReady {
		t.Errorf("the vendor shows %s: it cannot know", view.Status)
	}
	without := newWorld(t, scaleway.Options{Hardware: newQuietMacs()})
	without.pool(scaleway.ServerSpec{Name: "mac"})
	if response, _ := without.raw("PUT", "/sandbox/macs/mac", "", `{"on":true}`); response.StatusCode != 501 {
		t.Errorf("%d from Macs without a switch", response.StatusCode)
	}
}
