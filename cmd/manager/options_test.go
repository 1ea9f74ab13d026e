package main

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// Each plain option of a controller is said by a flag: one that is not passed on would be as
// by default, and nobody would notice.
func TestEveryOptionHasItsFlag(t *testing.T) {
	s := &settings{
		watchFilter: "mine", machineConcurrency: 1, hostConcurrency: 2, convergeConcurrency: 3, defaultPoolPrefix: "pool-",
		namespacePools: map[string][]string{"a": {"b-"}}, parsedReclaimZones: []string{"fr-par-1"}, claimNamePrefix: "c-", reportNamePrefix: "r-",
		reclaimInterval: 4 * time.Second, reclaimAfter: 5 * time.Second, rebootAfter: 6, recoverAfter: 7 * time.Second, maxAttempts: 8,
		reinstallTimeout: 9 * time.Second, namespace: "ns", inventoryInterval: 10 * time.Second, driftCheckInterval: 11 * time.Second, sshPort: 12,
	}
	s.vendor.ProjectID = "p-1"
	for _, c := range []struct {
		options any
		without []string // which have another source
	}{
		{s.hostOptions(), []string{"Settle"}},
		{s.machineOptions(), []string{"ClusterID"}},
	} {
		v := reflect.ValueOf(c.options)
		for i := range v.NumField() {
			field := v.Type().Field(i)
			switch field.Type.Kind() {
			case reflect.Interface, reflect.Func, reflect.Pointer, reflect.Struct:
				continue // services, not settings
			}
			if v.Field(i).IsZero() != slices.Contains(c.without, field.Name) {
				t.Errorf("%s.%s is %v", v.Type(), field.Name, v.Field(i))
			}
		}
	}
}
