package clitest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

// Namespace and Builders are the fleet's.
const (
	Namespace = "macfleet-system"
	Builders  = "macfleet-builders"
)

// Now is when the fleet is looked at.
func Now() time.Time { return time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC) }

// Ago is a time before Now.
func Ago(d time.Duration) metav1.Time { return metav1.NewTime(Now().Add(-d)) }

func microAgo(d time.Duration) *metav1.MicroTime { return ptr.To(metav1.NewMicroTime(Now().Add(-d))) }

// Condition is one that changed a while ago.
func Condition(kind string, status metav1.ConditionStatus, reason, message string, ago time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: Ago(ago)}
}

// Host is one of the pool; n tells them apart.
func Host(n int, phase infrav1.HostPhase, conditions ...metav1.Condition) infrav1.ScalewayAppleSiliconHost {
	id := fmt.Sprintf("%08d-0000-4000-8000-000000000000", n)
	return infrav1.ScalewayAppleSiliconHost{
		ObjectMeta: metav1.ObjectMeta{Name: "fr-par-1-" + id, CreationTimestamp: Ago(time.Duration(n) * 24 * time.Hour)},
		Spec:       infrav1.ScalewayAppleSiliconHostSpec{ServerID: id, Zone: "fr-par-1"},
		Status: infrav1.ScalewayAppleSiliconHostStatus{
			Phase: phase, Conditions: conditions,
			Server: infrav1.ServerStatus{
				Name: "tuist-pool-" + id, Type: "M2-L", OSFamily: "tahoe", IP: fmt.Sprintf("10.0.0.%d", n),
				Status: "ready", Delivered: true, DeletableAt: ptr.To(metav1.NewTime(Now().Add(5 * time.Hour))),
			},
		},
	}
}

// Machine is one of the fleet; n tells them apart.
func Machine(n int, phase string, conditions ...metav1.Condition) infrav1.ScalewayAppleSiliconMachine {
	return infrav1.ScalewayAppleSiliconMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Name: fmt.Sprintf("%s-x7k2p-%05d", Builders, n), UID: "u", CreationTimestamp: Ago(time.Hour),
			Labels: map[string]string{clusterv1.MachineDeploymentNameLabel: Builders, clusterv1.ClusterNameLabel: "macfleet"},
		},
		Spec:   infrav1.ScalewayAppleSiliconMachineSpec{MachineClass: infrav1.MachineClass{Type: "M2-L", ProfileRef: &infrav1.ProfileReference{Name: Builders}}},
		Status: infrav1.ScalewayAppleSiliconMachineStatus{Phase: phase, Conditions: conditions},
	}
}

// Claim ties the two.
func Claim(h *infrav1.ScalewayAppleSiliconHost, m *infrav1.ScalewayAppleSiliconMachine) {
	m.Spec.HostRef = &infrav1.HostReference{Name: h.Name, ClaimToken: "token"}
	m.Status.HostName = h.Name
	h.Spec.ClaimRef = &infrav1.ClaimReference{Cluster: "macfleet", Namespace: m.Namespace, Name: m.Name, Token: "token", UID: m.UID}
	h.Spec.Record.Wipe.RequiredSince = microAgo(50 * time.Minute)
	h.Status.Server.Name = m.Name
}

// Fleet has one of each trouble.
func Fleet() *snapshot.Snapshot {
	s := &snapshot.Snapshot{At: Now(), Hosts: hosts(), Machines: machines(), Pods: pods()}
	for i := range 3 {
		Claim(&s.Hosts[i], &s.Machines[i])
	}
	s.Hosts[3].Spec.ClaimRef = &infrav1.ClaimReference{Namespace: Namespace, Name: Builders + "-gone", Token: "old"}
	s.Hosts[4].Spec.Quarantine = &infrav1.Quarantine{Reason: "claims came to nothing", Until: ptr.To(metav1.NewTime(Now().Add(3 * time.Hour)))}
	s.Hosts[6].Spec.Release = &infrav1.Release{Token: "token", Policy: infrav1.Recycle, Origin: infrav1.OriginMachine, RequestedAt: *microAgo(6 * time.Minute)}
	s.Hosts[6].Spec.ClaimRef = &infrav1.ClaimReference{Namespace: Namespace, Name: Builders + "-left", Token: "token"}
	s.Hosts[6].Spec.Record.Wipe = infrav1.WipeRecord{Generation: 2, RequiredSince: microAgo(time.Hour), RequestedAt: microAgo(5 * time.Minute), StartedAt: microAgo(4 * time.Minute)}
	s.Machines[2].Status.Bootstrap.Attempts = 2
	s.Fleets = []clusterv1.MachineDeployment{fleet()}
	s.Profiles = []infrav1.MacNodeProfile{profile()}
	s.Zones = []infrav1.ScalewayAppleSiliconCluster{{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: "macfleet"},
		Spec:       infrav1.ScalewayAppleSiliconClusterSpec{Zones: []string{"fr-par-1"}},
		Status: infrav1.ScalewayAppleSiliconClusterStatus{Conditions: []metav1.Condition{
			Condition(infrav1.CredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonWritesForbidden, "ReinstallServer is refused since 11:40: it takes AppleSiliconFullAccess", 20*time.Minute),
			Condition(infrav1.DestructionHeldCondition, metav1.ConditionFalse, "NotHeld", "", time.Hour),
		}},
	}}
	return s
}

func hosts() []infrav1.ScalewayAppleSiliconHost {
	const no = metav1.ConditionFalse
	return []infrav1.ScalewayAppleSiliconHost{
		Host(1, infrav1.HostInUse, Condition(infrav1.AvailableCondition, no, "Claimed", "", time.Hour)),
		Host(2, infrav1.HostInUse, Condition(infrav1.AvailableCondition, no, "Claimed", "", time.Hour)),
		Host(3, infrav1.HostClaimed, Condition(infrav1.AvailableCondition, no, "Claimed", "", time.Hour)),
		Host(4, infrav1.HostStranded, Condition(infrav1.AvailableCondition, no, "Stranded", "claimed, but no Machine holds this claim; it stays as it is until the Machine comes back, a person releases it, or the sweep wipes it, where orphanReclaim.activeReclaim is on", time.Hour)),
		Host(5, infrav1.HostQuarantined, Condition(infrav1.AvailableCondition, no, infrav1.ReasonQuarantined, "the host is quarantined until 2026-11-26T15:00:00Z (claims came to nothing)", time.Hour),
			Condition(infrav1.KeptOutCondition, metav1.ConditionTrue, infrav1.ReasonQuarantined, "the host is quarantined until 2026-11-26T15:00:00Z (claims came to nothing)", 21*time.Hour)),
		Host(6, infrav1.HostDirty, Condition(infrav1.AvailableCondition, no, infrav1.ReasonNotWiped, "the host is not wiped since the last claim", time.Hour)),
		Host(7, infrav1.HostWiping, Condition(infrav1.AvailableCondition, no, "Wiping", "", time.Hour), Condition(infrav1.WipedCondition, no, infrav1.ReasonReinstalling, "the vendor reinstalls it", 4*time.Minute)),
		Host(8, infrav1.HostAvailable, Condition(infrav1.AvailableCondition, metav1.ConditionTrue, "Available", "", time.Hour)),
	}
}

func machines() []infrav1.ScalewayAppleSiliconMachine {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	claimed := Condition(infrav1.HostClaimedCondition, yes, "Claimed", "", time.Hour)
	none := Condition(infrav1.HostClaimedCondition, no, infrav1.ReasonNoAvailableHost, "3 claimed, 1 wiping, 1 quarantined, 1 not wiped since the last claim", 10*time.Minute)
	return []infrav1.ScalewayAppleSiliconMachine{
		Machine(1, "Running", claimed, Condition(infrav1.NodeReadyCondition, yes, "NodeReady", "", time.Hour)),
		Machine(2, "Running", claimed, Condition(infrav1.UpToDateCondition, no, infrav1.ReasonUpdateFailed, "step tart: the download has another SHA-256 (retry)", 3*time.Minute)),
		Machine(3, "Claimed", claimed, Condition(infrav1.BootstrappedCondition, no, infrav1.ReasonBootstrapFailed, "step network: no route (class retry)", 8*time.Minute)),
		Machine(4, "Pending", none),
		Machine(5, "Pending", none),
		Machine(6, "Lost", Condition(infrav1.HostClaimedCondition, no, infrav1.ReasonServerGone, "the vendor no longer has server 00000009", 2*time.Hour)),
	}
}

func fleet() clusterv1.MachineDeployment {
	md := clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Builders}}
	md.Spec.Replicas = ptr.To(int32(6))
	md.Spec.Template.Spec.InfrastructureRef.Kind = "ScalewayAppleSiliconMachineTemplate"
	md.Status.AvailableReplicas = ptr.To(int32(2))
	return md
}

func profile() infrav1.MacNodeProfile {
	return infrav1.MacNodeProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: Builders},
		Status: infrav1.MacNodeProfileStatus{Revision: "aa461e465251", Machines: 6, Available: 2, Updated: 1, Conditions: []metav1.Condition{
			Condition(infrav1.HaltedCondition, metav1.ConditionTrue, infrav1.ReasonCanaryFailed, Builders+"-x7k2p-00002 failed at step tart; tried again at 12:27", 3*time.Minute),
			Condition(infrav1.RolledOutCondition, metav1.ConditionFalse, infrav1.ReasonRolloutHalted, "1 of 6 Macs are done: 1 failed", 20*time.Minute),
			Condition(infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonRolloutHalted, "1 of 6 Macs are done: 1 failed", 20*time.Minute),
		}},
	}
}

// PendingPod says at length why no Node takes it.
func PendingPod(n int) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: fmt.Sprintf("build-%d", n), CreationTimestamp: Ago(time.Duration(n) * time.Minute)},
		Spec:       corev1.PodSpec{NodeSelector: map[string]string{corev1.LabelOSStable: "darwin"}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
			Message: "0/3 nodes are available: 1 node(s) had untolerated taint {a: b}, 2 Too many pods.\n preemption: 0/3 nodes are available: no victims",
		}}},
	}
}

func pods() []corev1.Pod {
	all := []corev1.Pod{PendingPod(1), PendingPod(2), PendingPod(3), PendingPod(4)}
	all[3].Name, all[3].Spec.NodeSelector = "linux", nil // no Mac's business
	return all
}
