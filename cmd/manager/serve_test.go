package main

import (
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// Hosts are looked at every few minutes though nothing wakes them, whichever namespaces are watched.
func TestHostsAreLookedAtThoughNothingWakesThem(t *testing.T) {
	for _, namespace := range []string{"", "fleet"} {
		options := cacheOf(namespace)
		if _, one := options.DefaultNamespaces[namespace]; one != (namespace != "") {
			t.Errorf("%q: watches %v", namespace, options.DefaultNamespaces)
		}
		found := false
		for object, by := range options.ByObject {
			_, is := object.(*infrav1.ScalewayAppleSiliconHost)
			found = found || is && by.SyncPeriod != nil && *by.SyncPeriod == hostsAtRest
		}
		if !found {
			t.Errorf("%q: hosts are as any other object: %v", namespace, options.ByObject)
		}
	}
}
