package host

import (
	"errors"
	"strings"
	"testing"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func TestRecognize(t *testing.T) {
	first := infrav1.HostHardware{Serial: "C02FIRST", PlatformUUID: "6BA7B810-9DAD"}
	for name, c := range map[string]struct {
		known  *infrav1.HostHardware
		accept string
		seen   infrav1.HostHardware
		want   *infrav1.HostHardware
		says   string
	}{
		"first contact":                 {seen: first, want: &first},
		"first contact, nothing shown":  {},
		"the same":                      {known: &first, seen: first, want: &first},
		"the same in small letters":     {known: &first, seen: infrav1.HostHardware{Serial: "C02FIRST", PlatformUUID: "6ba7b810-9dad"}, want: &infrav1.HostHardware{Serial: "C02FIRST", PlatformUUID: "6ba7b810-9dad"}},
		"another serial":                {known: &first, seen: infrav1.HostHardware{Serial: "C02OTHER", PlatformUUID: first.PlatformUUID}, says: `serial number is "C02OTHER", and was "C02FIRST"`},
		"another board":                 {known: &first, seen: infrav1.HostHardware{Serial: "C02FIRST", PlatformUUID: "F"}, says: `platform UUID is "F"`},
		"nothing shown":                 {known: &first, says: "serial number is not shown"},
		"no board shown":                {known: &first, seen: infrav1.HostHardware{Serial: "C02FIRST"}, says: "platform UUID is not shown"},
		"the rest is learned":           {known: &infrav1.HostHardware{Serial: "C02FIRST"}, seen: first, want: &first},
		"a novel for a serial":          {known: &first, seen: infrav1.HostHardware{Serial: strings.Repeat("C", 65)}, says: "not shown"},
		"accepted":                      {known: &first, accept: "C02OTHER", seen: infrav1.HostHardware{Serial: "C02OTHER", PlatformUUID: "F"}, want: &infrav1.HostHardware{Serial: "C02OTHER", PlatformUUID: "F"}},
		"yet another than the accepted": {known: &first, accept: "C02OTHER", seen: infrav1.HostHardware{Serial: "C02THIRD"}, says: `serial number is "C02THIRD", and was "C02FIRST", while spec.acceptSerial is "C02OTHER"`},
		"nothing, while one is awaited": {known: &first, accept: "C02OTHER", says: "not shown"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Host{}
			h.Spec.Record.Hardware, h.Spec.AcceptSerial = c.known, c.accept
			got, err := Recognize(h, c.seen)
			if c.says != "" {
				if _, typed := errors.AsType[*OtherHardwareError](err); !typed || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v, want %q", err, c.says)
				}
				return
			}
			if err != nil || (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
				t.Errorf("%+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}
