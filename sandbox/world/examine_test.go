package world

import (
	"net"
	"net/netip"
	"testing"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

func TestExamine(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ssh := netip.MustParseAddrPort(listener.Addr().String())
	if got := examine(t.Context(), ssh); got != scaleway.WellHealth() {
		t.Errorf("a Mac that answers: %+v", got)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if got := examine(t.Context(), ssh); got != (scaleway.Health{}) {
		t.Errorf("a Mac that does not answer: %+v", got)
	}
	if got := (&macs{}).Examine(t.Context(), "unknown"); got != (scaleway.Health{}) {
		t.Errorf("no Mac: %+v", got)
	}
}
