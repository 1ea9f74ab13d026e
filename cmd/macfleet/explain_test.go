package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/explain"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// told is the story that a verb writes.
func told(t *testing.T, args ...string) explain.Story {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(t.Context(), append(append([]string{"explain"}, args...), "-o", "json"), &out, &errs); code != 0 {
		t.Fatalf("%v: exit code %d: %s", args, code, &errs)
	}
	var story explain.Story
	if err := json.Unmarshal(out.Bytes(), &story); err != nil {
		t.Fatal(err)
	}
	return story
}

// A story that is told from the few objects of one Mac is the one that all objects tell.
func TestAStoryIsTheSameWithoutTheOthers(t *testing.T) {
	f := &fleetServer{change: func(s *snapshot.Snapshot) {
		for i := range s.Machines { // each with a Machine of Cluster API's, and a Mac
			m := &s.Machines[i]
			m.Spec.HostRef = &infrav1.HostReference{Name: s.Hosts[i].Name}
			s.Hosts[i].Spec.ClaimRef = &infrav1.ClaimReference{Namespace: m.Namespace, Name: m.Name, UID: m.UID}
			m.Status.Update = infrav1.UpdateStatus{Revision: s.Profiles[0].Status.Revision, Failures: 1, LastFailedAt: ptr.To(clitest.Ago(time.Duration(i) * time.Second))}
			s.CoreMachines = append(s.CoreMachines, clusterv1.Machine{ObjectMeta: m.ObjectMeta})
		}
		s.CoreMachines[0].DeletionTimestamp = &s.CoreMachines[0].CreationTimestamp
	}}
	speakTo(t, f)
	c, err := (&verb{}).cluster.Client()
	if err != nil {
		t.Fatal(err)
	}
	all, err := snapshot.Load(t.Context(), c, "", append(explain.MachineKinds(), explain.HostKinds()...)...)
	if err != nil {
		t.Fatal(err)
	}
	same := func(want explain.Story, kind, name string) {
		t.Helper()
		got := told(t, kind, name)
		got.At, want.At = time.Time{}, time.Time{}
		text, _ := json.Marshal(want)
		want = explain.Story{}
		_ = json.Unmarshal(text, &want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s %s (-all +its own):\n%s", kind, name, diff)
		}
	}
	for i := range all.Hosts {
		same(explain.Host(all, reasons.Read(), &all.Hosts[i]), "host", all.Hosts[i].Name)
	}
	for i := range all.Machines {
		same(explain.Machine(all, reasons.Read(), &all.Machines[i]), "machine", all.Machines[i].Name)
	}
}

// Of a thousand Macs only what belongs to the one is asked for, but where its name is not
// written out, or where a rollout is halted, which the other Macs of the profile have a say in.
func TestAStoryAsksForItsOwn(t *testing.T) {
	goesOn := func(s *snapshot.Snapshot) { s.Profiles[0].Status.Conditions = nil }
	for name, c := range map[string]struct {
		args   []string
		change func(*snapshot.Snapshot)
		whole  []string
	}{
		"a host":                   {[]string{"host", stranded}, goesOn, nil},
		"a host by its server":     {[]string{"host", "00000004"}, goesOn, []string{"scalewayapplesiliconhosts"}},
		"a Machine":                {[]string{"machine", clitest.Builders + "-x7k2p-00002"}, goesOn, nil},
		"a Machine that is halted": {[]string{"machine", clitest.Builders + "-x7k2p-00002"}, nil, []string{"scalewayapplesiliconmachines"}},
	} {
		f := &fleetServer{change: c.change}
		speakTo(t, f)
		told(t, c.args...)
		ofMacs := slices.DeleteFunc(f.whole, func(kind string) bool {
			return !slices.Contains([]string{"scalewayapplesiliconhosts", "scalewayapplesiliconmachines", "scalewayapplesiliconremediations", "machines", "nodes"}, kind)
		})
		if !slices.Equal(ofMacs, c.whole) {
			t.Errorf("%s: asks for all %s, want %v", name, strings.Join(ofMacs, ", "), c.whole)
		}
	}
}
