package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/sandbox/mac"
	"github.com/macfleet/macfleet/sandbox/world"
	"github.com/macfleet/macfleet/test/parttest"
)

// nodeGrace is when the sandbox calls a Node lost: far above the agent's lease of 10 s,
// since a busy machine delays renewals and a Node lost for that is rebooted once more, and
// below Kubernetes' own 50 s, so that the test is not mostly waiting.
const nodeGrace = 40 * time.Second

// TestHealthCheckMendsAMac breaks a Mac twice, under the health check that the docs
// show and a real core: an agent that is not there is started, and a Mac that is dead
// is rebooted. The Machine stays the same, and nothing is wiped. (An agent that hangs
// takes launchd's 30 s more to end.)
func TestHealthCheckMendsAMac(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	f := start(t, world.Options{Hosts: 2, ControllerManagerArgs: []string{"--node-monitor-grace-period=" + nodeGrace.String()}})
	f.awaitPool(2)
	f.applyHealthCheck()
	f.scale(1)
	f.awaitRunning(1)
	machine := f.machines()[0]
	f.tellsOfCallsAndSteps(machine.Name)
	f.restartsAgentByHand(machine.Name)

	f.remediationTimes(120, 600)
	agent := f.agentPID()
	// Code 36: its process is slow to end, launchd goes on with it.
	f.root("/bin/launchctl bootout system/dev.macfleet.tart-kubelet || [ $? -eq 36 ]")
	f.awaitUnready(machine.Name)
	f.awaitMended(machine.Name)
	if now := f.agentPID(); now == agent {
		t.Errorf("the agent is still process %s", agent)
	}
	if reboots := f.calls("RebootServer"); len(reboots) != 0 {
		t.Errorf("%d reboots for an agent that was gone", len(reboots))
	}

	f.remediationTimes(3, 600)
	if err := f.theMac().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.awaitUnready(machine.Name)
	f.awaitMended(machine.Name)
	if reboots := f.calls("RebootServer"); len(reboots) != 1 {
		t.Errorf("%d reboots of a dead Mac, want one", len(reboots))
	}

	if machines := f.machines(); len(machines) != 1 || machines[0].UID != machine.UID {
		t.Errorf("the Machine was replaced")
	}
	if wipes := f.calls("ReinstallServer"); len(wipes) != 0 {
		t.Errorf("%d Macs were wiped", len(wipes))
	}
}

// TestHealthCheckGivesAMachineUp: a Mac that no step mends is replaced by core, and
// goes back wiped.
func TestHealthCheckGivesAMachineUp(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	replacesADeadMac(t, func(*fleet) {})
}

// TestHealthCheckReplacesAMachineOfAnEarlierTemplate: core remediates none such, and with
// OnDelete waits for it to be deleted.
func TestHealthCheckReplacesAMachineOfAnEarlierTemplate(t *testing.T) {
	t.Parallel()
	parttest.Skip(t)
	replacesADeadMac(t, (*fleet).changeTemplate)
}

func replacesADeadMac(t *testing.T, before func(*fleet)) {
	t.Helper()
	f := start(t, world.Options{Hosts: 2, ControllerManagerArgs: []string{"--node-monitor-grace-period=" + nodeGrace.String()}})
	f.awaitPool(2)
	f.applyHealthCheck()
	f.remediationTimes(2, 0)
	f.scale(1)
	f.awaitRunning(1)
	before(f)
	machine := f.machines()[0]
	id := f.theHost().Spec.ServerID
	if err := f.theMac().Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.awaitUnready(machine.Name)
	f.await("another Machine", func() (string, bool) {
		machines := f.machines()
		return fmt.Sprint(len(machines), " Machines; ", f.remediations()), len(machines) == 1 && machines[0].UID != machine.UID
	})
	f.awaitRunning(1)
	f.awaitPool(1)
	// The next Machine may take it, too, where it was wiped before that came.
	next := f.machines()[0].Name
	if server := f.server(id); server.Name != world.PoolPrefix+id && server.Name != next || server.Installs != 2 {
		t.Errorf("server is %q after %d installs, want its pool name or %s after 2", server.Name, server.Installs, next)
	}
}

// changeTemplate has the Machines to come made of another template than those that are there.
func (f *fleet) changeTemplate() {
	f.Helper()
	deployment, template := &clusterv1.MachineDeployment{}, &infrav1.ScalewayAppleSiliconMachineTemplate{}
	f.read(world.Fleet, deployment)
	f.read(deployment.Spec.Template.Spec.InfrastructureRef.Name, template)
	f.createAll(&infrav1.ScalewayAppleSiliconMachineTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: "another", Labels: template.Labels}, Spec: template.Spec,
	})
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"spec":{"infrastructureRef":{"name":"another"}}}}}`))
	if err := f.client.Patch(f.Context(), deployment, patch); err != nil {
		f.Fatalf("changing the template: %v", err)
	}
	f.await("a MachineSet of the other template", func() (string, bool) {
		sets := &clusterv1.MachineSetList{}
		f.list(sets, client.InNamespace(world.Namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: world.Fleet})
		return fmt.Sprint(len(sets.Items), " MachineSets"), len(sets.Items) == 2
	})
}

// applyHealthCheck applies the example of the docs; only the time that a Node may be
// not Ready is shortened.
func (f *fleet) applyHealthCheck() {
	f.Helper()
	text := f.example("operate/health-checks.md", "health-check")
	f.apply(strings.ReplaceAll(text, "timeoutSeconds: 300", "timeoutSeconds: 1"))
}

// remediationTimes sets the times of the steps, in seconds.
func (f *fleet) remediationTimes(agent, reboot int32) {
	f.Helper()
	template := &infrav1.ScalewayAppleSiliconRemediationTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: world.Namespace, Name: world.Fleet}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
		`{"spec":{"template":{"spec":{"agentRestartTimeoutSeconds":%d,"rebootTimeoutSeconds":%d}}}}`, agent, reboot))
	if err := f.client.Patch(f.Context(), template, patch); err != nil {
		f.Fatalf("setting the times of the steps: %v", err)
	}
}

func (f *fleet) awaitUnready(node string) {
	f.Helper()
	f.await("the Node to be lost", func() (string, bool) {
		ready := f.nodeReady(node)
		return string(ready), ready == corev1.ConditionUnknown
	})
}

func (f *fleet) nodeReady(name string) corev1.ConditionStatus {
	f.Helper()
	for _, node := range f.nodes() {
		for _, c := range node.Status.Conditions {
			if node.Name == name && c.Type == corev1.NodeReady {
				return c.Status
			}
		}
	}
	return "none"
}

// awaitMended waits for the Node, for core's verdict, and until nothing is left of the
// remediation.
func (f *fleet) awaitMended(node string) {
	f.Helper()
	f.await("the Mac to be mended", func() (string, bool) {
		ready, left := f.nodeReady(node), f.remediations()
		healthy := false
		for _, m := range f.machines() {
			healthy = conditionTrue(m.Status.Conditions, clusterv1.MachineHealthCheckSucceededCondition)
		}
		return fmt.Sprintf("Ready=%s healthy=%t %s", ready, healthy, left), ready == corev1.ConditionTrue && healthy && left == ""
	})
	for _, h := range f.hosts() {
		if h.Spec.Reboot != nil {
			f.Errorf("a reboot of %s stays asked for: %+v", h.Name, h.Spec.Reboot)
		}
	}
	f.awaitRunning(1)
}

// remediations says how far each is; empty: there is none.
func (f *fleet) remediations() string {
	f.Helper()
	var list infrav1.ScalewayAppleSiliconRemediationList
	f.list(&list, client.InNamespace(world.Namespace))
	var seen []string
	for _, r := range list.Items {
		text := r.Name + " step=" + r.Status.Step
		for _, c := range r.Status.Conditions {
			text += " " + c.Reason + ": " + c.Message
		}
		seen = append(seen, text)
	}
	return strings.Join(seen, "; ")
}

// theHost is the one that is in use.
func (f *fleet) theHost() infrav1.ScalewayAppleSiliconHost {
	f.Helper()
	for _, h := range f.hosts() {
		if h.Spec.ClaimRef != nil && h.Spec.Release == nil {
			return h
		}
	}
	f.Fatal("no host is in use")
	return infrav1.ScalewayAppleSiliconHost{}
}

func (f *fleet) theMac() *mac.Mac {
	f.Helper()
	machine, found := f.world.Mac(f.theHost().Spec.ServerID)
	if !found {
		f.Fatal("no Mac behind the host in use")
	}
	return machine
}
