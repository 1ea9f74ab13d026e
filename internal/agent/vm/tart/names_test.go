package tart

import (
	"errors"
	"slices"
	"testing"

	"github.com/macfleet/macfleet/internal/agent/vm"
)

// Every name that tart takes is found again where tart keeps it, in its list, and can
// be given up; any other is said to be none, which no other try makes right.
func TestNamesOfImages(t *testing.T) {
	f := newFake(t, nil)
	for ref, fine := range map[string]bool{
		"registry.test/base:v1":                             true,
		"localhost:5000/a/b/c:t":                            true,
		"10.0.0.1:443/a:1":                                  true,
		"Registry.Test:5000/Org/Name:V1":                    true,
		"registry.test/a-b/c_d.e:v1.2-rc_3":                 true,
		"registry.test/very/long/path/of/an/image:20261123": true,
		"registry.test/a/b:v1--x":                           false, // tart's grammar has no two separators in a row
		"registry.test/a__b:v1":                             false,
		"registry.test/a:_v1":                               false,
		"registry.test:port/a:v1":                           false,
		"registry.test/a:":                                  false,
		"registry.test//a:v1":                               false,
		"registry.test/a b:v1":                              false,
		"base":                                              false,
		"-x/a:v1":                                           false,
		"registry.test/a@sha256:12":                         false,
	} {
		digest, err := f.Pull(t.Context(), ref, vm.PullOptions{})
		if !fine {
			if !errors.Is(err, vm.ErrInvalidReference) {
				t.Errorf("%s: %v", ref, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if held, err := f.Digest(t.Context(), ref); err != nil || held != digest {
			t.Errorf("%s: %s, %v, want %s", ref, held, err, digest)
		}
		images, err := f.Images(t.Context())
		if err != nil || !slices.ContainsFunc(images, func(i vm.Image) bool { return i.Name == ref && i.Digest == digest }) {
			t.Errorf("%s is not in %+v, %v", ref, images, err)
		}
		for _, i := range images {
			if err := f.RemoveImage(t.Context(), i.Name); err != nil {
				t.Errorf("removing %s: %v", i.Name, err)
			}
		}
		if left, err := f.Images(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("left of %s: %+v, %v", ref, left, err)
		}
	}
}
