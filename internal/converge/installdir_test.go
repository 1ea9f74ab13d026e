package converge

import (
	"testing"

	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/macos/macostest"
)

// A staged file that is not what it is called is not installed; staged again, it is.
func TestStagedFileOfAnotherContent(t *testing.T) {
	whole := macostest.Build("first build")
	for name, data := range map[string][]byte{
		"nothing":   {},
		"half":      whole[:len(whole)/2],
		"one byte":  append([]byte{whole[0] ^ 1}, whole[1:]...),
		"too much":  append(append([]byte{}, whole...), 0),
		"a foreign": macostest.Build("somebody else's"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			attr := macos.Attr{Mode: 0o700, Owner: "m1", Group: "staff"}
			f.mac.Put(f.self, data, attr)
			f.refused("agent", document.Retry, "upload it again")
			f.gone(programFile(f.desired.Agent.SHA256), incoming(f.desired.Agent.SHA256), document.CurrentAgent)
			f.mac.Put(f.self, whole, attr)
			f.untilConverged()
		})
	}
}

// What somebody did to the installed program shows, and is mended from what is
// staged: by a new file, for this one may be running.
func TestInstalledProgramOfAnotherContent(t *testing.T) {
	whole := macostest.Build("first build")
	for name, data := range map[string][]byte{
		"nothing": {}, "half": whole[:len(whole)/2], "a foreign": macostest.Build("somebody else's"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.converge()
			slot := programFile(f.desired.Agent.SHA256)
			f.mac.Overwrite(slot, data)
			f.untilConverged()
			if f.content(slot) != string(whole) {
				t.Error("the program was not mended")
			}
		})
	}
}
