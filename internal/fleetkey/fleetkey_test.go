package fleetkey

import (
	"strings"
	"testing"
)

const (
	cluster = "0a1b2c3d-0000-4000-8000-000000000001"
	old     = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	current = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

func TestANameIsTheRecordOfOneKey(t *testing.T) {
	for _, o := range []Owner{
		{cluster, "macfleet", "builders"}, {cluster, "a", "b.c.d"}, {cluster, "a", "x"},
	} {
		name := Name(o, old+" somebody@here")
		got, ours := ParseName(cluster, name, old)
		if !ours || got != o {
			t.Errorf("%q is %+v, %t", name, got, ours)
		}
	}
	ours := Name(Owner{cluster, "macfleet", "builders"}, old)
	digest := ours[strings.LastIndexByte(ours, '.'):]
	for name, c := range map[string]struct{ cluster, name, public string }{
		"another key under our name":   {cluster, ours, current},
		"another management cluster":   {"ffffffff-0000-4000-8000-000000000001", ours, old},
		"a person's":                   {cluster, "ada@example.com", old},
		"a person's, nearly like ours": {cluster, "macfleet.builders", old},
		"no namespace":                 {cluster, "macfleet.0a1b2c3d..builders" + digest, old},
		"no fleet":                     {cluster, "macfleet.0a1b2c3d.macfleet" + digest, old},
		"of an earlier form":           {cluster, "macfleet-builders", old},
		"no digest":                    {cluster, "macfleet.0a1b2c3d.macfleet.builders.x", old},
		"no key":                       {cluster, ours, "nonsense"},
		"nothing":                      {cluster, "", ""},
	} {
		if got, is := ParseName(c.cluster, c.name, c.public); is {
			t.Errorf("%s: taken for the key of %+v", name, got)
		}
	}
}

func TestKeep(t *testing.T) {
	given := func(key string) Machine { return Machine{Name: "mac-1", Bootstrapped: true, Key: Fingerprint(key)} }
	for name, c := range map[string]struct {
		evidence Evidence
		why      string
	}{
		"in use":                              {Evidence{InUse: []string{old}}, "in the fleet's Secret"},
		"in use with a comment":               {Evidence{InUse: []string{old + " fleet"}}, "in the fleet's Secret"},
		"being replaced":                      {Evidence{InUse: []string{current, old}}, "in the fleet's Secret"},
		"replaced, a Mac lags":                {Evidence{InUse: []string{current}, Machines: []Machine{given(old)}}, "mac-1 was not given the new key"},
		"replaced, a Mac's state is lost":     {Evidence{InUse: []string{current}, Machines: []Machine{{Name: "mac-1", Bootstrapped: true}}}, "mac-1 was not given the new key"},
		"replaced, a Mac is being prepared":   {Evidence{InUse: []string{current}, Machines: []Machine{{Name: "mac-1"}, given(current)}}, ""},
		"replaced everywhere":                 {Evidence{InUse: []string{current}, Machines: []Machine{given(current)}}, ""},
		"replaced, a host is not wiped":       {Evidence{InUse: []string{current}, Hosts: []string{"h1"}}, "not released and wiped yet: h1"},
		"the Secret is gone, a Machine lives": {Evidence{Machines: []Machine{given(old)}}, "Machine mac-1"},
		"the Secret is gone, more may come":   {Evidence{Users: []string{"MachineDeployment ci"}}, "MachineDeployment ci"},
		"the Secret is gone, a wipe is due":   {Evidence{Hosts: []string{"h1", "h2"}}, "h1, h2"},
		"the fleet is gone":                   {Evidence{}, ""},
	} {
		got := Keep(old, c.evidence)
		if (got == "") != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: kept because %q, want %q", name, got, c.why)
		}
	}
}
