package remediation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/workload"
)

// visit is one look at one remediation. All but the remediation is read uncached:
// what follows may be a power cut, or a Machine given up.
type visit struct {
	remediation, before *infrav1.ScalewayAppleSiliconRemediation

	owner   *clusterv1.Machine
	cluster *clusterv1.Cluster
	machine *infrav1.ScalewayAppleSiliconMachine
	host    *host.Host
	node    *corev1.Node
	hold    host.Block
	// checks that select the Machine.
	checks []clusterv1.MachineHealthCheck
	// onDelete: the Machine's owner waits for it to be deleted.
	onDelete bool
	// complaint of a health check, of a Node that is Ready.
	complaint string
}

// get reads uncached what may be missing.
func get[T client.Object](ctx context.Context, reader client.Reader, key client.ObjectKey, into T) (T, error) {
	var none T
	err := reader.Get(ctx, key, into)
	switch {
	case err == nil:
		return into, nil
	case client.IgnoreNotFound(err) == nil:
		return none, nil
	}
	return none, fmt.Errorf("reading %T %s: %w", into, key.Name, err)
}

func (r *Reconciler) load(ctx context.Context, remediation *infrav1.ScalewayAppleSiliconRemediation) (*visit, error) {
	v := &visit{remediation: remediation, before: remediation.DeepCopy()}
	name := ownerMachine(remediation)
	if name == "" {
		return v, nil
	}
	var err error
	key := client.ObjectKey{Namespace: remediation.Namespace, Name: name}
	if v.owner, err = get(ctx, r.Reader, key, &clusterv1.Machine{}); err != nil || v.owner == nil {
		return v, err
	}
	key.Name = v.owner.Spec.ClusterName
	if v.cluster, err = get(ctx, r.Reader, key, &clusterv1.Cluster{}); err != nil {
		return nil, err
	}
	if err := r.loadChecks(ctx, v); err != nil {
		return nil, err
	}
	if v.onDelete, err = r.awaitsDeletion(ctx, v); err != nil {
		return nil, err
	}
	if !v.ours() {
		return v, nil
	}
	key.Name = v.owner.Spec.InfrastructureRef.Name
	if v.machine, err = get(ctx, r.Reader, key, &infrav1.ScalewayAppleSiliconMachine{}); err != nil || v.machine == nil {
		return v, err
	}
	return v, r.loadMac(ctx, v)
}

func (r *Reconciler) loadMac(ctx context.Context, v *visit) (err error) {
	if v.node, err = get(ctx, r.Reader, client.ObjectKey{Name: v.machine.Name}, &corev1.Node{}); err != nil {
		return err
	}
	if v.node != nil && workload.NodeReady(v.node) {
		v.complaint = complaint(v.checks, v.owner, v.node)
	}
	if v.machine.Spec.HostRef == nil {
		return nil
	}
	v.host, err = get(ctx, r.Reader, client.ObjectKey{Name: v.machine.Spec.HostRef.Name}, &host.Host{})
	if err != nil || v.host == nil {
		return err
	}
	hosts := &infrav1.ScalewayAppleSiliconHostList{}
	if err := r.Reader.List(ctx, hosts); err != nil {
		return fmt.Errorf("listing hosts: %w", err)
	}
	zone := v.host.Spec.Zone
	report, listed := r.Zone(zone)
	v.hold = host.DestructionBlocked(zone, host.WithoutSelf(hosts.Items, v.host.Name), report, listed, r.Clock.Now())
	return nil
}

// ours: the Machine's infrastructure is of our kind.
func (v *visit) ours() bool {
	return v.owner.Spec.InfrastructureRef.Kind == "ScalewayAppleSiliconMachine"
}

// paused: somebody asks for this Machine to be left alone. Nothing is done then,
// and nothing written.
func (v *visit) paused() bool {
	if v.cluster == nil || annotations.IsPaused(v.cluster, v.owner) || annotations.HasPaused(v.remediation) {
		return true
	}
	return v.machine != nil && annotations.HasPaused(v.machine)
}

// leaving: the Machine is on its way out, and its Mac to be wiped.
func (v *visit) leaving() bool {
	if !v.owner.DeletionTimestamp.IsZero() || !v.cluster.DeletionTimestamp.IsZero() {
		return true
	}
	return v.machine != nil && !v.machine.DeletionTimestamp.IsZero()
}

func (v *visit) input(now time.Time) host.Remediation {
	in := host.Remediation{
		Step:           v.remediation.Status.Step,
		RestartTimeout: seconds(v.remediation.Spec.AgentRestartTimeoutSeconds, host.DefaultAgentRestartTimeout),
		RebootTimeout:  seconds(v.remediation.Spec.RebootTimeoutSeconds, host.DefaultRebootTimeout),
		Node:           v.nodeState(), Complaint: v.complaint, Unready: host.RebootReason(workload.WhyNotReady(v.node)), Wanted: annotations.HasRemediateMachine(v.owner),
		Unasked: v.unasked(), Hindrance: v.hindrance(), Gone: v.gone(), Lost: v.lost(), Block: v.hold, Now: now,
		OnDelete: v.onDelete, TooMany: !slices.ContainsFunc(v.checks, mayAct),
	}
	if at := v.remediation.Status.StepStartedAt; at != nil {
		in.Since = at.Time
	}
	in.Bringup = v.bringup()
	if v.machine != nil {
		in.Restarted = v.machine.Status.Applied.Restart == v.id()
		in.Unreachable = v.unreachable()
	}
	if v.host != nil && v.host.Status.LastReboot.ID == v.rebootID() {
		in.RebootedAt = v.host.Status.LastReboot.At.Time
	}
	return in
}

func seconds(given *int32, otherwise time.Duration) time.Duration {
	if given == nil {
		return otherwise
	}
	return time.Duration(*given) * time.Second
}

// id names what this round of the remediation asks for: a restart that was made in an
// earlier one is not made again under its name.
func (v *visit) id() string {
	id := string(v.remediation.UID)
	if round := v.remediation.Status.Round; round > 0 {
		id += fmt.Sprintf("-%d", round)
	}
	return id
}

func (v *visit) rebootID() string { return host.RemediationRebootID(v.id()) }

// awaitsRestart reports that the remediation has asked for a restart of the agent, in
// whatever round, that was not made yet.
func (v *visit) awaitsRestart() bool {
	id := v.machine.Annotations[infrav1.RestartAgentAnnotation]
	return strings.HasPrefix(id, string(v.remediation.UID)) && v.machine.Status.Applied.Restart != id
}

// awaitsReboot is the same of the host's reboot.
func (v *visit) awaitsReboot() bool {
	request := v.host.Spec.Reboot
	return request != nil && strings.HasPrefix(request.ID, host.RemediationRebootID(string(v.remediation.UID)))
}

// nodeState: a Node that says it is another Mac is none of this Machine's. One of which a
// health check complains is not well, however Ready it is.
func (v *visit) nodeState() host.NodeState {
	switch {
	case v.node == nil || v.machine.Spec.ProviderID == "" || v.node.Spec.ProviderID != v.machine.Spec.ProviderID:
		return host.NodeMissing
	case workload.NodeReady(v.node) && v.complaint == "":
		return host.NodeReady
	}
	return host.NodeUnready
}

// unreachable: the control plane has not heard of the Node, and the machine controller
// has not reached the Mac over SSH either.
func (v *visit) unreachable() bool {
	return v.node != nil && v.nodeState() == host.NodeUnready && workload.NodeSilent(v.node) && sshFails(v.machine)
}

func sshFails(m *infrav1.ScalewayAppleSiliconMachine) bool {
	return conditions.GetReason(m, infrav1.BootstrappedCondition) == infrav1.ReasonSSHUnreachable
}

// gone: the machine controller has the proof that the vendor lost the server.
func (v *visit) gone() bool {
	switch {
	case v.host != nil:
		return v.host.Status.Phase == infrav1.HostGone
	case v.machine != nil:
		return conditions.GetReason(v.machine, infrav1.HostClaimedCondition) == infrav1.ReasonServerGone
	}
	return false
}

// lost: the host is claimed for another Machine, or for none: nothing here brings it
// back. Whether one that was rebuilt is this Machine's is for its own controller to
// find. So it is where our object of the Machine was deleted alone, which frees the host. One
// that core has never seen provisioned may be about to come from a backup.
func (v *visit) lost() bool {
	if v.machine == nil {
		return v.ours() && conditions.GetReason(v.owner, clusterv1.MachineInfrastructureReadyCondition) == clusterv1.MachineInfrastructureDeletedReason
	}
	if v.host == nil || v.machine.Spec.HostRef == nil {
		return false
	}
	switch host.Repair(v.machine, v.host, "") {
	case host.Lost:
		return !host.MeansClaim(v.host, v.machine) // renamed by somebody, it is claimed still
	case host.Copied:
		return true
	}
	return false
}

// takesNoOther: the Machine keeps its hostRef although the host is another's. A copied one is
// left for a person to see, and one that takes a Mac over means that Mac alone.
func (v *visit) takesNoOther() bool {
	return v.lost() && (host.TakesOver(v.machine) || host.Repair(v.machine, v.host, "") == host.Copied)
}

// hindrance says why nothing may be done to the Mac now, or nothing.
func (v *visit) hindrance() string {
	switch {
	case v.machine == nil && v.lost():
		return ""
	case v.machine == nil:
		return "the Machine has no ScalewayAppleSiliconMachine"
	case v.unprovisioned() && v.machine.Spec.HostRef == nil:
		return "the Machine waits for a Mac, as another would in its place"
	case v.unprovisioned() && v.takesNoOther():
		return "the Machine has no right to host " + v.host.Name + " and takes no other by itself: the condition HostClaimed of its ScalewayAppleSiliconMachine says more"
	case v.unprovisioned() && (v.gone() || v.lost()):
		return "the Machine has lost its Mac before that became a Node, and takes another"
	case v.gone(), v.lost():
		return ""
	case v.host == nil:
		return "the host is not known at present"
	case !host.HoldsClaim(v.host, v.machine), v.host.Spec.Release != nil:
		return "host " + v.host.Name + " is not this Machine's at present"
	case v.host.Spec.Record.HandedOverAt != nil:
		return "host " + v.host.Name + " was handed over to another management cluster"
	case v.host.Spec.Maintenance != nil:
		return "host " + v.host.Name + " is in maintenance: " + v.host.Spec.Maintenance.Reason
	}
	return v.elsewhere()
}

func (v *visit) unprovisioned() bool { return v.machine.Spec.ProviderID == "" }

// bringup is how far the claimed Mac is that is no Node yet; nothing of others.
func (v *visit) bringup() host.Bringup {
	if v.machine == nil || v.host == nil || !v.unprovisioned() {
		return host.Bringup{}
	}
	b := host.Bringup{
		Pending: true, AskedAt: v.remediation.CreationTimestamp.Time, Reason: conditions.GetReason(v.machine, infrav1.BootstrappedCondition), Allowed: startupTime(v.checks),
	}
	if last := v.machine.Status.Bootstrap.LastError; last != nil {
		b.Class = host.FailureClass(last.Class)
	}
	if at := v.host.Spec.Record.Wipe.RequiredSince; at != nil {
		b.ClaimedAt = at.Time
	}
	switch {
	case host.TakesOver(v.machine):
		b.Spared = "it is taken over as it stands"
	case v.node != nil && host.NodeOfHost(v.node, v.host) && workload.NodeReady(v.node):
		b.Spared = "its Node is Ready"
	case v.host.Spec.Record.Ordered:
		b.Spared = "its server was ordered, and another one would be"
	}
	return b
}

// elsewhere says that the machine controller leaves the Mac alone, as after `clusterctl
// move`: its Node is missed here because it is another cluster's, and nobody would carry
// out what is asked for.
func (v *visit) elsewhere() string {
	switch conditions.GetReason(v.machine, infrav1.BootstrappedCondition) {
	case infrav1.ReasonDifferentCluster:
		return "its Mac is a node of another cluster"
	case infrav1.ReasonWaitingForCluster:
		return "nothing says whether its Mac is a node of this cluster"
	}
	return ""
}

// diagnosis is what the vendor's diagnostic last said of the host, if anything.
func (v *visit) diagnosis() string {
	if v.host == nil {
		return ""
	}
	c := apimeta.FindStatusCondition(v.host.Status.Conditions, infrav1.ReachableCondition)
	if c == nil {
		return ""
	}
	said := c.Reason
	if c.Message != "" {
		said += ": " + c.Message
	}
	return fmt.Sprintf("; the vendor's diagnostic says %s=%s, %s", c.Type, c.Status, said)
}
