package host_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

func TestNoteRegistration(t *testing.T) {
	record := func(labels, taints []string) *infrav1.RegistrationRecord {
		return &infrav1.RegistrationRecord{Labels: labels, Taints: taints}
	}
	many := func(from, to int) (all []string) {
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprint(i))
		}
		return all
	}
	for name, c := range map[string]struct {
		known *infrav1.RegistrationRecord
		told  infrav1.RegistrationRecord
		want  *infrav1.RegistrationRecord
		more  bool
	}{
		"nothing":         {nil, infrav1.RegistrationRecord{}, nil, false},
		"the first":       {nil, *record([]string{"a"}, nil), record([]string{"a"}, nil), true},
		"known":           {record([]string{"a", "b"}, []string{"t"}), *record([]string{"b"}, []string{"t"}), record([]string{"a", "b"}, []string{"t"}), false},
		"another label":   {record([]string{"a"}, nil), *record([]string{"b"}, nil), record([]string{"a", "b"}, nil), true},
		"another taint":   {record(nil, []string{"t"}), *record(nil, []string{"u"}), record(nil, []string{"t", "u"}), true},
		"too many to say": {record(many(0, 128), nil), *record([]string{"x"}, nil), record(append(many(1, 128), "x"), nil), true},
	} {
		h := &host.Host{}
		h.Spec.Record.Registration = c.known.DeepCopy()
		if more := host.NoteRegistration(h, c.told); more != c.more {
			t.Errorf("%s: more = %t", name, more)
		}
		if diff := cmp.Diff(c.want, h.Spec.Record.Registration); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// What an OS or an owner that is gone was told says nothing of the next Node.
func TestARegistrationEndsWithItsInstall(t *testing.T) {
	for name, end := range map[string]func(*host.Host){
		"claimed again": func(h *host.Host) { host.Claim(h, infrav1.ClaimReference{Token: "t-2"}, noon()) },
		"free":          host.Free,
		"wiped for the Machine that stays": func(h *host.Host) {
			h.Spec.Release = &infrav1.Release{Policy: infrav1.Reinstall}
			host.Finish(h, noon())
		},
	} {
		h := &host.Host{}
		host.NoteRegistration(h, infrav1.RegistrationRecord{Taints: []string{"t"}})
		if end(h); h.Spec.Record.Registration != nil {
			t.Errorf("%s: %+v is still on record", name, h.Spec.Record.Registration)
		}
	}
}

// What is on a Host counts for the Machine whose claim it carries alone.
func TestRegistered(t *testing.T) {
	for token, want := range map[string]int{"t": 1, "theirs": 0} {
		m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "a"}}
		m.Spec.HostRef = &infrav1.HostReference{Name: "h", ClaimToken: "t"}
		h := &host.Host{ObjectMeta: metav1.ObjectMeta{Name: "h"}}
		h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "fleet", Name: "a", Token: token}
		host.NoteRegistration(h, infrav1.RegistrationRecord{Taints: []string{"t"}})
		if got := host.Registered(h, m); len(got.Taints) != want {
			t.Errorf("claimed with %q: %+v", token, got)
		}
	}
}
