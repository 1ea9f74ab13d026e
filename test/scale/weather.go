package main

import (
	"net/http"
	"time"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// spread is into how many latencies the jitter is cut.
const spread = 5

// weather is how the vendor is on any day: each answer takes a while, and some go wrong in one of four ways.
func weather(latency, jitter time.Duration, share float64) []scaleway.Fault {
	var all []scaleway.Fault
	if share > 0 {
		for _, wrong := range []scaleway.Fault{
			{Error: "internal"}, {Error: "too_many_requests"}, {Drop: true}, {Drop: true, When: scaleway.AfterEffect},
		} {
			wrong.Delay, wrong.Probability = scaleway.Duration(latency), share/4
			all = append(all, wrong)
		}
	}
	for n := range spread {
		delay := latency - jitter + 2*jitter*time.Duration(n)/(spread-1)
		if delay <= 0 {
			continue
		}
		// Of those that are left each takes its part, and the last takes all.
		all = append(all, scaleway.Fault{Delay: scaleway.Duration(delay), Probability: 1 / float64(spread-n)})
	}
	return all
}

// away is a vendor that does not answer: half of the calls never end, and half are refused.
func away() []scaleway.Fault {
	return []scaleway.Fault{{Silence: true, Probability: 0.5}, {Status: http.StatusServiceUnavailable}}
}

// set has the vendor do these and no others.
func (f *fleet) set(faults []scaleway.Fault) error {
	f.Vendor().Clear("")
	for _, fault := range faults {
		if _, err := f.Vendor().Arm(fault); err != nil {
			return err
		}
	}
	return nil
}
