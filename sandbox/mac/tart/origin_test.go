package tart

import (
	"strings"
	"testing"
)

// People know the image of a Pod, not the name that its agent gives the VM.
func TestAFaultOfAnImageIsOneOfItsClones(t *testing.T) {
	t.Parallel()
	const other = "registry.test/macos/other:v1"
	m := newMac(t, &Plan{Faults: []Fault{
		{Kind: RunNoSession, Name: "macos/other"},
		{Kind: CloneNoSpace, Name: "third"},
		{Kind: BootCrash, Name: "second"},
	}})
	m.must("clone", testImage, "first")
	m.must("clone", other, "copy")
	m.must("clone", "copy", "copy-of-it")
	m.must("rename", "copy", "renamed")
	m.must("clone", "first", "second")
	m.must("clone", "second", "of-second")
	for vm, c := range map[string]struct {
		code int
		says string
	}{
		"renamed":    {1, "Code=-9"},
		"copy-of-it": {1, "Code=-9"},
		"second":     {0, "due to error"},
		"of-second":  {0, "due to error"},
	} {
		if got := m.do("run", vm); got.code != c.code || !strings.Contains(got.out+got.err, c.says) {
			t.Errorf("%s: %+v", vm, got)
		}
	}
	m.boot("first") // of another image
	m.must("clone", "first", "fourth")
	m.must("rename", "fourth", "third")
	if got := m.do("clone", "third", "any"); got.code == 0 {
		t.Error("what the fault names was cloned")
	}
}
