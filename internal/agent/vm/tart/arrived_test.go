package tart

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

func TestArrived(t *testing.T) {
	const other, half = "registry.test/macos/other:v1", 5 * 4096
	f := newFake(t, nil)
	if n := Arrived(f.home, nil); n != 0 {
		t.Errorf("%d bytes before a pull", n)
	}
	f.interrupt(t, pinnedImage, "pull-interrupted")
	left := Arrived(f.home, nil)
	f.plan(t, faults("pull-stalls"))
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	var both, alone int64
	_, err := f.Pull(ctx, other, vm.PullOptions{Progress: func(percent int) {
		if percent == 50 {
			both, alone = Arrived(f.home, nil), Arrived(f.home, []string{other})
			giveUp()
		}
	}})
	if err == nil || left < half || both < left+half || alone != left {
		t.Errorf("%d bytes of half an image, %d while another comes, %d without that, %v", left, both, alone, err)
	}
	f.plan(t, nil)
	for _, ref := range []string{pinnedImage, other} {
		f.begins(t, ref)
	}
	writeFile(t, filepath.Join(f.home, "tmp", "4AB2C9A3-0D57-4E1A-9C59-3C3D8E6D1F00", "disk.img"))
	if n := Arrived(f.home, nil); n != 0 {
		t.Errorf("%d bytes of no pull", n)
	}
}
