package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// waitingPod says at length why no Node takes it.
func waitingPod(name, owner string) corev1.Pod {
	yes := true
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "u", Name: owner, Controller: &yes}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
			Message: "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Too many pods.\n preemption: 0/3 nodes are available: " + strings.Repeat("no victims ", 20),
		}}},
	}
}

func TestAPodThatWaitsTakesOneShortLine(t *testing.T) {
	rows := podRows([]corev1.Pod{waitingPod("b", "o"), waitingPod("a", "o")})
	want := "Unschedulable: 0/3 nodes are available: 1 node(s) had untol…"
	if d := cmp.Diff([][]string{{"default/a", "Pending", "no", "", want}, {"default/b", "Pending", "no", "", want}}, rows); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestManyPodsThatWaitForTheSameShareALine(t *testing.T) {
	var pods []corev1.Pod
	for n := range 6 {
		pods = append(pods, waitingPod(fmt.Sprintf("p%d", n), "o"))
	}
	bound := waitingPod("bound", "o")
	bound.Spec.NodeName = "mac-1"
	running := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "runs"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	var names []string
	for _, row := range podRows(append(pods, bound, running)) {
		names = append(names, row[0])
	}
	if d := cmp.Diff([]string{"default/bound", "default/p0 and 5 more", "default/runs"}, names); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Who looks for a free Mac sees which ones stay out of the pool, also in use.
func TestAHostThatIsKeptOutSaysSo(t *testing.T) {
	kept := func(status metav1.ConditionStatus) infrav1.ScalewayAppleSiliconHost {
		return infrav1.ScalewayAppleSiliconHost{
			ObjectMeta: metav1.ObjectMeta{Name: "fr-par-1-" + string(status)},
			Status: infrav1.ScalewayAppleSiliconHostStatus{
				Phase:      infrav1.HostInUse,
				Conditions: []metav1.Condition{{Type: infrav1.KeptOutCondition, Status: status, Reason: infrav1.ReasonMaintenance}},
			},
		}
	}
	var out strings.Builder
	if err := (snapshot{hosts: []infrav1.ScalewayAppleSiliconHost{kept(metav1.ConditionTrue), kept(metav1.ConditionFalse)}}).print(&out); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if says := strings.Contains(line, infrav1.ReasonMaintenance); strings.HasPrefix(line, "fr-par-1-") && says != strings.HasPrefix(line, "fr-par-1-True") {
			t.Errorf("%q", line)
		}
	}
}
