package allocation

import "testing"

const gib = 1 << 30

func TestRequestsAreHeldAgainstAllPodsTogether(t *testing.T) {
	capacity := Amount{MilliCPUs: 8000, MemoryBytes: 16 * gib}
	for name, c := range map[string]struct {
		others []holding
		wants  Amount
		reason string
	}{
		"an empty host":              {nil, Amount{8000, 16 * gib}, ""},
		"more than there is":         {nil, Amount{0, 17 * gib}, "OutOfmemory"},
		"what is left":               {[]holding{{requests: Amount{2000, 14 * gib}}}, Amount{6000, 2 * gib}, ""},
		"more memory than is left":   {[]holding{{requests: Amount{2000, 14 * gib}}}, Amount{1000, 14 * gib}, "OutOfmemory"},
		"more CPUs than are left":    {[]holding{{requests: Amount{7000, 0}}}, Amount{1001, 0}, "OutOfcpu"},
		"no requests on a full host": {[]holding{{requests: Amount{8000, 16 * gib}}}, Amount{}, ""},
		// A VM larger than its request is no promise that a Pod could be refused for.
		"beside a VM with a limit": {[]holding{{Amount{0, 2 * gib}, 16 * gib, false}}, Amount{0, 14 * gib}, ""},
	} {
		got := ""
		if f := refusal(capacity, c.others, c.wants); f != nil {
			got = f.Reason
		}
		if got != c.reason {
			t.Errorf("%s: refused with %q, want %q", name, got, c.reason)
		}
	}
	f := refusal(capacity, []holding{{requests: Amount{0, 14 * gib}}}, Amount{0, 14 * gib})
	if want := "Node didn't have enough resource: memory, requested: 15032385536, used: 15032385536, capacity: 17179869184"; f == nil || f.Message != want {
		t.Errorf("refusal %+v, want %s", f, want)
	}
}

func TestAVMGetsWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		others []holding
		need   Need
		given  int64
		fits   bool
	}{
		"all it wants":                       {nil, Need{4 * gib, 8 * gib}, 8 * gib, true},
		"the rest":                           {[]holding{{Amount{0, 10 * gib}, 10 * gib, false}}, Need{4 * gib, 8 * gib}, 6 * gib, true},
		"too little":                         {[]holding{{Amount{0, 14 * gib}, 14 * gib, false}}, Need{4 * gib, 8 * gib}, 2 * gib, false},
		"what was promised is not given":     {[]holding{{requests: Amount{0, 14 * gib}}}, Need{4 * gib, 8 * gib}, 2 * gib, false},
		"one that waits for more has none":   {[]holding{{Amount{0, 8 * gib}, 0, true}}, Need{12 * gib, 12 * gib}, 12 * gib, true},
		"a VM counts with its size":          {[]holding{{Amount{0, 2 * gib}, 12 * gib, false}}, Need{4 * gib, 8 * gib}, 4 * gib, true},
		"a request beside a VM at its limit": {[]holding{{Amount{0, 6 * gib}, 12 * gib, false}}, Need{6 * gib, 12 * gib}, 4 * gib, false},
	} {
		given, fits := fit(16*gib, c.others, c.need)
		if given != c.given || fits != c.fits {
			t.Errorf("%s: %d GiB, fits %t; want %d, %t", name, given/gib, fits, c.given/gib, c.fits)
		}
	}
}
