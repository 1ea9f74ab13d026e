package accept

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheSuitesOutputIsRead(t *testing.T) {
	printed := `=== RUN   Driver
=== RUN   Driver/Probe
    images.go:20: nobody has tried version 9 before
=== RUN   Driver/GuestCrashes
    lives.go:7: guests cannot be made to crash here
=== RUN   Driver/Guest
=== RUN   Driver/Guest/Codes
=== RUN   Driver/Guest/Streams
=== RUN   Driver/Guest/Streams/no_input
    guests.go:133: (-want +got):
          x
=== NAME  Driver/Guest/Streams
    guests.go:140: late
=== NAME  Driver
    vmtest.go:1: of nobody
--- FAIL: Driver (61.00s)
    --- PASS: Driver/Probe (0.02s)
    --- SKIP: Driver/GuestCrashes (0.00s)
    --- FAIL: Driver/Guest (60.00s)
        --- PASS: Driver/Guest/Codes (1.50s)
        --- FAIL: Driver/Guest/Streams (2.00s)
            --- FAIL: Driver/Guest/Streams/no_input (1.00s)
FAIL
exit 1`
	want := []suiteResult{
		{"Probe", "PASS", []string{"images.go:20: nobody has tried version 9 before"}, 0.02},
		{"GuestCrashes", "SKIP", []string{"lives.go:7: guests cannot be made to crash here"}, 0},
		{"Guest", "FAIL", nil, 60},
		{"Guest/Codes", "PASS", nil, 1.5},
		{"Guest/Streams", "FAIL", []string{"guests.go:133: (-want +got):", "x", "guests.go:140: late"}, 2},
	}
	if diff := cmp.Diff(want, readSuite(strings.Split(printed, "\n")), cmp.AllowUnexported(suiteResult{})); diff != "" {
		t.Error(diff)
	}
	if got := readSuite([]string{"zsh: killed", "exit 137"}); got != nil {
		t.Errorf("of a suite that was killed: %+v", got)
	}
}

func TestTheMissingImageIsInTheSameRegistry(t *testing.T) {
	if got := missingImage("registry.test:5000/macos/base:v1"); got != "registry.test:5000/missing/macfleet-accept:none" {
		t.Error(got)
	}
}
