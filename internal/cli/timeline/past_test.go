package timeline

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/host"
)

// Nothing is called gone that might be there: a Node, or a Machine that was not to be seen.
func TestWhatIsGone(t *testing.T) {
	const name = clitest.Builders + "-x7k2p-00009"
	about := func(kind, namespace string) corev1.Event {
		return corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}}
	}
	machine, mac := about("ScalewayAppleSiliconMachine", clitest.Namespace), about("ScalewayAppleSiliconHost", "")
	for told, c := range map[string]struct {
		events  []corev1.Event
		missing snapshot.Kind
		in      string
		want    string
	}{
		"a Machine":                    {events: []corev1.Event{about("Node", ""), machine}, want: "machine macfleet-system/" + name + " is gone. This is what its events tell: events are kept for about an hour."},
		"a host":                       {events: []corev1.Event{mac}, want: "host " + name + " is gone. This is what its events tell: events are kept for about an hour."},
		"in its own namespace":         {events: []corev1.Event{machine}, in: clitest.Namespace, want: "machine macfleet-system/" + name + " is gone. This is what its events tell: events are kept for about an hour."},
		"a Node and core's Machine":    {events: []corev1.Event{about("Node", ""), about("Machine", clitest.Namespace)}},
		"nothing":                      {},
		"hosts are not to be seen":     {events: []corev1.Event{mac}, missing: snapshot.Hosts},
		"Machines are not to be seen":  {events: []corev1.Event{machine}, missing: snapshot.Machines},
		"of a namespace not looked at": {events: []corev1.Event{machine}, in: "ci"},
	} {
		s := clitest.Fleet()
		s.Events, s.Namespace, s.Missing = c.events, c.in, []snapshot.Missing{{Kind: c.missing}}
		if c.missing != "" {
			s.Missing[0].Why = "you may not"
		}
		past, found := PastOf(s, name)
		if found != (c.want != "") || found && past.Says() != c.want {
			t.Errorf("%s: %t, %q, want %q", told, found, past.Says(), c.want)
		}
	}
}

// A claim names a Machine that is gone until its host is wiped; that of an adoption names none.
func TestWhoseEventsTellOfAMac(t *testing.T) {
	s := clitest.Fleet()
	adopted := clitest.Host(9, infrav1.HostWiping)
	adopted.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: host.NoNamespace, Name: "tuist-pool-09"}
	ordered := clitest.Machine(7, "Pending")
	ordered.Spec.Acquisition = infrav1.Order
	for told, c := range map[string]struct {
		of   Of
		want []string
	}{
		"one that was ordered":     {Of{Machine: &ordered}, []string{ordered.Name, "order-" + ordered.Name}},
		"both":                     {Of{Host: &s.Hosts[0], Machine: &s.Machines[0]}, []string{s.Hosts[0].Name, s.Machines[0].Name}},
		"a stranded host":          {Of{Host: &s.Hosts[3]}, []string{s.Hosts[3].Name, clitest.Builders + "-gone"}},
		"a host that is wiped":     {Of{Host: &s.Hosts[6]}, []string{s.Hosts[6].Name, clitest.Builders + "-left"}},
		"a free host":              {Of{Host: &s.Hosts[7]}, []string{s.Hosts[7].Name}},
		"an adopted host":          {Of{Host: &adopted}, []string{adopted.Name}},
		"a Machine without a host": {Of{Machine: &s.Machines[3]}, []string{s.Machines[3].Name}},
	} {
		if got := c.of.Names(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", told, got, c.want)
		}
	}
}
