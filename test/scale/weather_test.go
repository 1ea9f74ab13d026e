package main

import (
	"math"
	"testing"
	"time"

	"github.com/macfleet/macfleet/sandbox/scaleway"
)

// The first fault that meets a call is the one: what is left for each of them adds up to the share and the latency asked for.
func TestWeatherIsAsAsked(t *testing.T) {
	const latency, jitter, share = 200 * time.Millisecond, 100 * time.Millisecond, 0.01
	left, wrong, mean := 1.0, 0.0, 0.0
	least, most := time.Hour, time.Duration(0)
	for _, f := range weather(latency, jitter, share) {
		p := f.Probability * left
		left -= p
		if f.Error != "" || f.Drop {
			wrong += p
			continue
		}
		d := time.Duration(f.Delay)
		least, most = min(least, d), max(most, d)
		mean += p * float64(d)
	}
	if left > 1e-9 || math.Abs(wrong-share) > share/50 || least != latency-jitter || most != latency+jitter || math.Abs(mean-float64(latency)) > float64(latency)*0.02 {
		t.Errorf("%g of the calls are spared, %g go wrong, the others take %s to %s, %s on average", left, wrong, least, most, time.Duration(mean))
	}
}

func TestTheVendorTakesTheWeather(t *testing.T) {
	v := scaleway.New(scaleway.Options{})
	defer v.Close()
	for _, f := range append(weather(time.Second, time.Second, 0.5), away()...) {
		if _, err := v.Arm(f); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
