package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// troubled is a fleet in which each kind has something to say of a Mac, and of another one
// beside it that must not be taken for it.
func troubled(s *snapshot.Snapshot) {
	for i := range s.Machines {
		m := &s.Machines[i]
		clitest.Claim(&s.Hosts[i], m)
		m.Status.Update = infrav1.UpdateStatus{Revision: s.Profiles[0].Status.Revision, Failures: 1, LastFailedAt: ptr.To(clitest.Ago(time.Duration(i) * time.Second))}
		s.CoreMachines = append(s.CoreMachines, clusterv1.Machine{ObjectMeta: m.ObjectMeta, Status: clusterv1.MachineStatus{NodeRef: clusterv1.MachineNodeReference{Name: m.Name}}})
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.Name, Annotations: map[string]string{infrav1.HeldUntilAnnotation: m.Name}}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "of " + m.Name}}
		s.Nodes = append(s.Nodes, node)
		s.Remediations = append(s.Remediations, infrav1.ScalewayAppleSiliconRemediation{
			ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name},
			Status:     infrav1.ScalewayAppleSiliconRemediationStatus{Conditions: []metav1.Condition{clitest.Condition(infrav1.RemediatedCondition, metav1.ConditionFalse, infrav1.ReasonRebooting, "of "+m.Name, time.Minute)}},
		})
		running := clitest.PendingPod(i + 1)
		running.Name, running.Spec.NodeName, running.Status.Phase = "job-"+m.Name, m.Name, corev1.PodRunning
		s.Pods = append(s.Pods, running)
	}
	s.Machines[0].Status.Conditions[1] = clitest.Condition(infrav1.NodeReadyCondition, metav1.ConditionFalse, infrav1.ReasonNodeNotReady, "left alone", 24*time.Hour)
	s.CoreMachines[1].DeletionTimestamp = ptr.To(clitest.Ago(time.Minute))
	for i := range 2 { // namesakes, which are well
		namesake := clitest.Machine(i+1, "Running")
		namesake.Namespace, namesake.UID = "elsewhere", "other"
		s.Machines = append(s.Machines, namesake)
		s.CoreMachines = append(s.CoreMachines, clusterv1.Machine{ObjectMeta: namesake.ObjectMeta})
	}
}

// A story that is told from the few objects of one Mac is the one that all objects tell.
func TestAStoryIsTheSameWithoutTheOthers(t *testing.T) {
	for name, change := range map[string]func(*snapshot.Snapshot){
		"halted":  troubled,
		"goes on": func(s *snapshot.Snapshot) { troubled(s); goesOn(s) },
	} {
		t.Run(name, func(t *testing.T) {
			speakTo(t, &fleetServer{change: change})
			c, err := (&verb{}).cluster.Client()
			if err != nil {
				t.Fatal(err)
			}
			all, err := snapshot.Load(t.Context(), c, "", slices.Concat(explain.MachineKinds(), explain.HostKinds(), explain.PodKinds(), []snapshot.Kind{snapshot.Pods})...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range all.Hosts {
				same(t, explain.Host(all, reasons.Read(), &all.Hosts[i]), "host", all.Hosts[i].Name)
			}
			for i := range all.Machines {
				m := &all.Machines[i]
				same(t, explain.Machine(all, reasons.Read(), m), "machine", m.Namespace+"/"+m.Name)
			}
			for i := range all.Pods {
				same(t, explain.Pod(all, reasons.Read(), &all.Pods[i]), "pod", all.Pods[i].Name)
			}
		})
	}
}

// same compares what a verb tells with a story.
func same(t *testing.T, want explain.Story, kind, name string) {
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

// goesOn is a fleet whose rollout is not halted.
func goesOn(s *snapshot.Snapshot) { s.Profiles[0].Status.Conditions = nil }

// A Machine that Cluster API alone has still has a story, by its whole name.
func TestTheStoryOfAMachineThatStandsForNoMac(t *testing.T) {
	speakTo(t, &fleetServer{change: func(s *snapshot.Snapshot) {
		left := clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: clitest.Namespace, Name: clitest.Builders + "-gone", CreationTimestamp: clitest.Ago(time.Hour)}}
		left.Spec.InfrastructureRef.Kind, left.Spec.InfrastructureRef.Name = "ScalewayAppleSiliconMachine", left.Name
		s.CoreMachines = append(s.CoreMachines, left)
	}})
	points := told(t, "machine", clitest.Namespace+"/"+clitest.Builders+"-gone").Points
	if len(points) != 1 || !slices.Equal(points[0].Commands, []string{"kubectl -n " + clitest.Namespace + " delete machine " + clitest.Builders + "-gone"}) {
		t.Errorf("tells %+v", points)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"explain", "machine", "nonsense"}, &out, &errs); code != exitFailed || !strings.Contains(errs.String(), "there is no machine nonsense") {
		t.Errorf("of nothing: %d, %s", code, &errs)
	}
}

// Of a thousand Macs only what belongs to the one is asked for, but where its name is not
// written out, or where a rollout is halted, which the other Macs of the profile have a say in.
func TestAStoryAsksForItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		args   []string
		change func(*snapshot.Snapshot)
		whole  []string
	}{
		"a host":                        {[]string{"host", stranded}, goesOn, nil},
		"a host by its server":          {[]string{"host", "00000004"}, goesOn, []string{"scalewayapplesiliconhosts"}},
		"a Machine":                     {[]string{"machine", clitest.Builders + "-x7k2p-00002"}, goesOn, nil},
		"a Machine as status writes it": {[]string{"machine", clitest.Namespace + "/" + clitest.Builders + "-x7k2p-00002"}, goesOn, nil},
		"a Machine that is up to date": {[]string{"machine", clitest.Builders + "-x7k2p-00002"}, func(s *snapshot.Snapshot) {
			s.Machines[1].Status.Applied.Revision = s.Profiles[0].Status.Revision
		}, nil},
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
