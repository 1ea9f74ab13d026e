package converge

import (
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
)

func TestGuestsNetwork(t *testing.T) {
	f := newFixture(t)
	f.converge()
	want := macostest.GuestNet{Address: "192.168.64.1", Mask: "255.255.255.0", LeaseSeconds: 600}
	if f.mac.GuestNet != want {
		t.Errorf("network %+v", f.mac.GuestNet)
	}
	if r := f.converge(); outcomes(r)["network"] != document.Unchanged {
		t.Errorf("second run: %v", outcomes(r))
	}
}

func TestAnotherSubnetWaitsForTheGuests(t *testing.T) {
	f := newFixture(t)
	f.converge()
	before := f.mac.GuestNet
	f.mac.Console.Guests = 1
	f.desired.Mac.Network.Subnet = "10.77.0.0/16"
	f.refused("network", document.Wait, "until no guest runs")
	if f.mac.GuestNet != before {
		t.Errorf("network %+v", f.mac.GuestNet)
	}
	f.mac.Console.Guests = 0
	f.converge()
	want := macostest.GuestNet{Address: "10.77.0.1", Mask: "255.255.0.0", LeaseSeconds: 600}
	if f.mac.GuestNet != want {
		t.Errorf("network %+v", f.mac.GuestNet)
	}
	f.fenced()
}

// The lease and a pin of what vmnet uses anyway disturb nobody.
func TestGuestsDoNotKeepTheLeaseFromBeingSet(t *testing.T) {
	f := newFixture(t)
	f.converge()
	f.mac.GuestNet = macostest.GuestNet{}
	f.mac.Console.Guests = 2
	f.converge()
	if f.mac.GuestNet.LeaseSeconds != 600 || f.mac.GuestNet.Address != "192.168.64.1" {
		t.Errorf("network %+v", f.mac.GuestNet)
	}
}
