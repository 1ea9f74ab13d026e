package main

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/cloud/cloudtest"
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

// A zone that the vendor takes away stops no manager of other zones: each is listed, and
// reported, by itself. What no zone is known of is a mistake, and nothing would be served.
func TestWhatEndsAManagerAtItsStart(t *testing.T) {
	vendor := &cloudtest.Cloud{Fault: func(c cloudtest.Call) (before, after error) {
		for zone, kind := range map[string]cloud.Kind{
			"gone": cloud.KindUnknownZone, "nowhere": cloud.KindUnknownZone, "silent": cloud.KindUnavailable, "locked": cloud.KindUnauthorized,
		} {
			if c.Arg == zone {
				return &cloud.Error{Kind: kind, Doing: "check access to zone " + zone}, nil
			}
		}
		return nil, nil
	}}
	for name, c := range map[string]struct {
		zones       []string
		ends, tells []string
	}{
		"none named":                    {nil, nil, nil},
		"all known":                     {[]string{"fr-par-1", "nl-ams-1"}, nil, nil},
		"the only one is unknown":       {[]string{"gone"}, []string{"--orphan-reclaim-zones", "zone gone"}, nil},
		"all unknown":                   {[]string{"gone", "nowhere"}, []string{"gone, nowhere"}, nil},
		"one unknown":                   {[]string{"gone", "fr-par-1"}, nil, []string{"gone"}},
		"two unknown":                   {[]string{"gone", "fr-par-1", "nowhere"}, nil, []string{"gone", "nowhere"}},
		"one unknown, the other silent": {[]string{"silent", "gone"}, nil, []string{"gone"}},
		"the credentials are rejected":  {[]string{"gone", "locked"}, []string{"credentials"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			ctx := ctrl.LoggerInto(t.Context(), logr.FromSlogHandler(slog.NewTextHandler(&log, nil)))
			err := prove(ctx, vendor, c.zones)
			if _, usage := errors.AsType[*usageError](err); usage != (c.ends != nil) {
				t.Fatalf("error = %v, want it to end: %t", err, c.ends != nil)
			}
			for _, word := range c.ends {
				if !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "\n") {
					t.Errorf("error %q, want one line with %q", err, word)
				}
			}
			lines := slices.DeleteFunc(strings.Split(log.String(), "\n"), func(line string) bool { return !strings.Contains(line, "level=ERROR") })
			if len(lines) != min(1, len(c.tells)) {
				t.Fatalf("errors in the log: %q", lines)
			}
			for _, word := range c.tells {
				if !strings.Contains(lines[0], word) {
					t.Errorf("the log says %q, want %q in it", lines[0], word)
				}
			}
		})
	}
}
