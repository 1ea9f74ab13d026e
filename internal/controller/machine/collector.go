package machine

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/machine"
)

// machineCollector counts the Machines at each scrape, from the cache, so that no
// series outlives what it tells of.
type machineCollector struct {
	reader                               client.Reader
	clock                                clock.PassiveClock
	phases, notReady, longest, lostSlots *prometheus.Desc
}

func newMachineCollector(reader client.Reader, now clock.PassiveClock) *machineCollector {
	gauge := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"fleet", label}, nil)
	}
	return &machineCollector{
		reader: reader, clock: now,
		phases:    gauge("macfleet_machines", "Machines by fleet and phase.", "phase"),
		notReady:  gauge("macfleet_machines_not_ready", "Machines that are not Ready, by fleet and the reason of the condition Ready.", "reason"),
		longest:   gauge("macfleet_machines_longest_wait_seconds", "For how long the Machine that waits longest has not been Ready or, in phase Releasing, has been deleted; by fleet and phase.", "phase"),
		lostSlots: gauge("macfleet_machines_lost_slots", "Machines whose Mac cannot use all its slots for guests, by fleet and reason.", "reason"),
	}
}

// Describe implements prometheus.Collector.
func (c *machineCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.phases, c.notReady, c.longest, c.lostSlots} {
		descs <- desc
	}
}

// group is the values of a series' two labels.
type group struct{ fleet, of string }

// Collect implements prometheus.Collector.
func (c *machineCollector) Collect(out chan<- prometheus.Metric) {
	list := &infrav1.ScalewayAppleSiliconMachineList{}
	if err := c.reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	values := map[*prometheus.Desc]map[group]float64{c.phases: {}, c.notReady: {}, c.longest: {}, c.lostSlots: {}}
	deleted := c.deletedOwners()
	for i := range list.Items {
		m := &list.Items[i]
		fleet := machine.Snapshot{Machine: m}.Fleet()
		values[c.phases][group{fleet, phaseOf(m)}]++
		if reason := falseReason(m, infrav1.SlotsHealthyCondition); reason != "" {
			values[c.lostSlots][group{fleet, reason}]++
		}
		if reason := falseReason(m, infrav1.ReadyCondition); reason != "" {
			values[c.notReady][group{fleet, reason}]++
		}
		if phase, waited := waiting(m, deleted, c.clock.Now()); waited > 0 {
			of := group{fleet, phase}
			values[c.longest][of] = max(values[c.longest][of], waited.Seconds())
		}
	}
	for desc, groups := range values {
		for g, value := range groups {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, g.fleet, g.of)
		}
	}
}

// falseReason is why a condition is False; empty: it is not.
func falseReason(m *infrav1.ScalewayAppleSiliconMachine, kind string) string {
	if c := conditions.Get(m, kind); c != nil && c.Status == metav1.ConditionFalse {
		return c.Reason
	}
	return ""
}

// deletedOwners says since when Machines of Cluster API are being deleted, by UID.
func (c *machineCollector) deletedOwners() map[types.UID]time.Time {
	list := &clusterv1.MachineList{}
	if err := c.reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	since := map[types.UID]time.Time{}
	for i := range list.Items {
		if at := list.Items[i].DeletionTimestamp; at != nil {
			since[list.Items[i].UID] = at.Time
		}
	}
	return since
}

// waiting is in which phase, and for how long, a Machine has waited. Core drains the Node of one that is deleted
// before it deletes the infra machine, which runs on as if nothing were: a drain may wait for ever.
func waiting(m *infrav1.ScalewayAppleSiliconMachine, deleted map[types.UID]time.Time, now time.Time) (phase string, waited time.Duration) {
	if m.DeletionTimestamp.IsZero() {
		for _, owner := range m.OwnerReferences {
			if since, is := deleted[owner.UID]; is {
				return machine.PhaseReleasing, now.Sub(since)
			}
		}
	}
	return phaseOf(m), waitedFor(m, now)
}

// phaseOf is Pending for a Machine that has no phase yet, be it new or from a backup.
func phaseOf(m *infrav1.ScalewayAppleSiliconMachine) string {
	return cmp.Or(m.Status.Phase, machine.PhasePending)
}

// waitedFor is for how long a Machine has not been Ready or, once it is deleted, has
// been on its way out. Zero: it is Ready.
func waitedFor(m *infrav1.ScalewayAppleSiliconMachine, now time.Time) time.Duration {
	since := m.CreationTimestamp.Time
	if c := conditions.Get(m, infrav1.ReadyCondition); c != nil {
		since = c.LastTransitionTime.Time
	}
	switch {
	case !m.DeletionTimestamp.IsZero():
		return now.Sub(m.DeletionTimestamp.Time)
	case conditions.IsTrue(m, infrav1.ReadyCondition):
		return 0
	}
	return now.Sub(since)
}
