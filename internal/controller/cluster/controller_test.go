package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

type reports map[string]host.ZoneReport

func (r reports) Zone(zone string) (host.ZoneReport, bool) {
	report, ok := r[zone]
	return report, ok
}

// world is a fake API server that counts writes.
type world struct {
	client client.Client
	events *events.FakeRecorder
	writes int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{events: events.NewFakeRecorder(100)}
	w.client = clienttest.AsServed(clienttest.NewBuilder(scheme).WithObjects(objects...).
		WithStatusSubresource(&infrav1.ScalewayAppleSiliconCluster{}).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
				w.writes++
				return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
				w.writes++
				return c.Patch(ctx, obj, patch, opts...)
			},
		}).Build())
	return w
}

func (w *world) reconcile(t *testing.T, inventory Inventory) *infrav1.ScalewayAppleSiliconCluster {
	t.Helper()
	key := client.ObjectKey{Namespace: "fleet", Name: "macs"}
	r := &Reconciler{Client: w.client, Inventory: inventory, Recorder: w.events, Clock: clocktesting.NewFakePassiveClock(now())}
	for range 2 { // the first pass may only set Paused
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	got := &infrav1.ScalewayAppleSiliconCluster{}
	if err := w.client.Get(t.Context(), key, got); err != nil {
		t.Fatal(err)
	}
	return got
}

func infra(zones ...string) *infrav1.ScalewayAppleSiliconCluster {
	return &infrav1.ScalewayAppleSiliconCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet", Name: "macs",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "macs", UID: "c"}},
		},
		Spec: infrav1.ScalewayAppleSiliconClusterSpec{Zones: zones},
	}
}

func owner() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "macs", UID: "c"}}
}

func mac(name, zone string, phase infrav1.HostPhase) *infrav1.ScalewayAppleSiliconHost {
	return &infrav1.ScalewayAppleSiliconHost{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       infrav1.ScalewayAppleSiliconHostSpec{Zone: zone, ServerID: name},
		Status:     infrav1.ScalewayAppleSiliconHostStatus{Phase: phase},
	}
}

func now() time.Time { return time.Unix(1_800_000_000, 0) }

func listed() host.ZoneReport { return host.ZoneReport{At: time.Unix(1, 0)} }

func failing(kind cloud.Kind, at time.Time) host.ZoneReport {
	return host.ZoneReport{At: at, Err: &cloud.Error{Kind: kind, Doing: "list servers", Message: "no"}}
}

func TestZonesBecomeFailureDomains(t *testing.T) {
	w := newWorld(t, infra("fr-par-3", "fr-par-1"), owner(),
		mac("a", "fr-par-1", infrav1.HostAvailable), mac("b", "fr-par-1", infrav1.HostWiping), mac("c", "nl-ams-1", infrav1.HostAvailable))
	got := w.reconcile(t, reports{"fr-par-1": listed(), "fr-par-3": listed()})
	want := []clusterv1.FailureDomain{
		{Name: "fr-par-1", ControlPlane: ptr.To(false), Attributes: map[string]string{attributeTotal: "2", attributeAvailable: "1"}},
		{Name: "fr-par-3", ControlPlane: ptr.To(false), Attributes: map[string]string{attributeTotal: "0", attributeAvailable: "0"}},
	}
	if diff := cmp.Diff(want, got.Status.FailureDomains); diff != "" {
		t.Errorf("failure domains (-want +got):\n%s", diff)
	}
	if !ptr.Deref(got.Status.Initialization.Provisioned, false) || !conditions.IsTrue(got, infrav1.ReadyCondition) {
		t.Errorf("status = %+v, want provisioned and Ready", got.Status)
	}
}

func TestConditions(t *testing.T) {
	for name, c := range map[string]struct {
		reports     reports
		credentials string
		synced      string
		provisioned bool
	}{
		"all well":          {reports{"fr-par-1": listed(), "fr-par-3": listed()}, infrav1.CredentialsValidCondition, infrav1.InventorySyncedCondition, true},
		"one not listed":    {reports{"fr-par-1": listed()}, reasonNotListed, reasonNotListed, false},
		"rejected":          {reports{"fr-par-1": failing(cloud.KindUnauthorized, time.Time{}), "fr-par-3": listed()}, infrav1.ReasonCredentialsRejected, infrav1.ReasonCredentialsRejected, false},
		"rights lost":       {reports{"fr-par-1": failing(cloud.KindForbidden, time.Unix(1, 0)), "fr-par-3": listed()}, infrav1.ReasonCredentialsRejected, infrav1.ReasonCredentialsRejected, true},
		"throttled":         {reports{"fr-par-1": failing(cloud.KindThrottled, time.Unix(1, 0)), "fr-par-3": listed()}, infrav1.CredentialsValidCondition, infrav1.ReasonVendorThrottled, true},
		"unreachable":       {reports{"fr-par-1": listed(), "fr-par-3": failing(cloud.KindUnavailable, time.Unix(1, 0))}, infrav1.CredentialsValidCondition, infrav1.ReasonVendorUnreachable, true},
		"never reached":     {reports{"fr-par-1": listed(), "fr-par-3": failing(cloud.KindUnavailable, time.Time{})}, reasonNotListed, infrav1.ReasonVendorUnreachable, false},
		"no such zone":      {reports{"fr-par-1": listed(), "fr-par-3": failing(cloud.KindUnknownZone, time.Time{})}, reasonNotListed, infrav1.ReasonUnknownZone, false},
		"many vanished":     {reports{"fr-par-1": {At: time.Unix(1, 0), Suspicious: true}, "fr-par-3": listed()}, infrav1.CredentialsValidCondition, infrav1.ReasonInventorySuspicious, true},
		"something unknown": {reports{"fr-par-1": failing(cloud.KindInvalid, time.Unix(1, 0)), "fr-par-3": listed()}, infrav1.CredentialsValidCondition, reasonListFailed, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := newWorld(t, infra("fr-par-1", "fr-par-3"), owner()).reconcile(t, c.reports)
			if reason := conditions.GetReason(got, infrav1.CredentialsValidCondition); reason != c.credentials {
				t.Errorf("CredentialsValid = %s, want %s", reason, c.credentials)
			}
			if reason := conditions.GetReason(got, infrav1.InventorySyncedCondition); reason != c.synced {
				t.Errorf("InventorySynced = %s, want %s", reason, c.synced)
			}
			if provisioned := ptr.Deref(got.Status.Initialization.Provisioned, false); provisioned != c.provisioned {
				t.Errorf("provisioned = %t, want %t", provisioned, c.provisioned)
			}
		})
	}
}

// Who puts a second wrong key into the Secret sees that it was read.
func TestARefusedKeyIsToldFromTheNext(t *testing.T) {
	w := newWorld(t, infra("fr-par-1"), owner())
	for _, key := range []string{"this key was read at 2026-11-23T04:00:00Z", "this key was read at 2026-11-23T04:05:00Z"} {
		for _, kind := range []cloud.Kind{cloud.KindUnauthorized, cloud.KindForbidden} {
			refused := host.ZoneReport{Err: &cloud.Error{Kind: kind, Doing: "list servers", Message: "no", Key: key}}
			c := conditions.Get(w.reconcile(t, reports{"fr-par-1": refused}), infrav1.CredentialsValidCondition)
			if c.Reason != infrav1.ReasonCredentialsRejected || !strings.HasSuffix(c.Message, "; "+key) {
				t.Errorf("CredentialsValid of a key that is %s says %q, want %q in it", kind, c.Message, key)
			}
		}
	}
}

// Rights to read, and none to write, are rights that are missing.
func TestRefusedWritesAreNoValidCredentials(t *testing.T) {
	since := time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	refused := listed()
	refused.Refused = []cloud.Refusal{
		{Call: "EnsureSSHKey", Since: since, Said: "register an SSH key: permission denied"},
		{Call: "RenameServer", Since: since, Said: "rename server fr-par-1/s: permission denied"},
	}
	w := newWorld(t, infra("fr-par-1"), owner())
	got := w.reconcile(t, reports{"fr-par-1": refused})
	c := conditions.Get(got, infrav1.CredentialsValidCondition)
	if c.Status != metav1.ConditionFalse || c.Reason != infrav1.ReasonWritesForbidden || conditions.GetReason(got, infrav1.ReadyCondition) != c.Reason {
		t.Errorf("CredentialsValid = %+v", c)
	}
	for _, part := range []string{"RenameServer", "AppleSiliconFullAccess", "EnsureSSHKey", "SSHKeysFullAccess", "2026-11-23T04:00:00Z", "permission denied"} {
		if !strings.Contains(c.Message, part) {
			t.Errorf("%q does not say %q", c.Message, part)
		}
	}
	if got := w.reconcile(t, reports{"fr-par-1": listed()}); !conditions.IsTrue(got, infrav1.CredentialsValidCondition) || !conditions.IsTrue(got, infrav1.ReadyCondition) {
		t.Errorf("once writes work again: %+v", got.Status.Conditions)
	}
}

// What vanished is counted, and what fails says since when.
func TestTroubleHasNumbers(t *testing.T) {
	suspicious, away := listed(), failing(cloud.KindUnavailable, time.Unix(1, 0))
	suspicious.Suspicious, suspicious.Missing, suspicious.Expected = true, 7, 12
	away.FailingSince = time.Date(2026, 11, 23, 4, 0, 0, 0, time.UTC)
	for says, report := range map[string]host.ZoneReport{
		"7 of 12 servers vanished at once":                                       suspicious,
		"the zone cannot be listed since 2026-11-23T04:00:00Z: list servers: no": away,
	} {
		got := newWorld(t, infra("fr-par-1"), owner()).reconcile(t, reports{"fr-par-1": report})
		for _, kind := range []string{infrav1.InventorySyncedCondition, infrav1.DestructionHeldCondition} {
			if c := conditions.Get(got, kind); !strings.Contains(c.Message, says) {
				t.Errorf("%s says %q, and not %q", kind, c.Message, says)
			}
		}
	}
}

func TestDestructionHeld(t *testing.T) {
	const zone = "fr-par-1"
	for name, c := range map[string]struct {
		report    reports
		disturbed time.Duration // ago
		status    metav1.ConditionStatus
		reason    string
	}{
		"quiet":            {reports{zone: listed()}, 2 * time.Hour, metav1.ConditionFalse, reasonNotHeld},
		"enough disturbed": {reports{zone: listed()}, time.Minute, metav1.ConditionTrue, infrav1.ReasonStormGuard},
		"suspicious":       {reports{zone: {At: now(), Suspicious: true}}, 2 * time.Hour, metav1.ConditionTrue, infrav1.ReasonInventorySuspicious},
		"failing":          {reports{zone: {At: now(), Failing: true}}, 2 * time.Hour, metav1.ConditionTrue, infrav1.ReasonVendorFailing},
		"throttled":        {reports{zone: failing(cloud.KindThrottled, now())}, 2 * time.Hour, metav1.ConditionTrue, infrav1.ReasonVendorFailing},
		"not listed":       {reports{}, time.Minute, metav1.ConditionUnknown, reasonNotListed},
	} {
		t.Run(name, func(t *testing.T) {
			disturbed := mac("a", zone, infrav1.HostWiping)
			host.RecordDisruption(disturbed, now().Add(-c.disturbed))
			w := newWorld(t, infra(zone), owner(), disturbed, mac("b", zone, infrav1.HostInUse))
			got := conditions.Get(w.reconcile(t, c.report), infrav1.DestructionHeldCondition)
			if got == nil || got.Status != c.status || got.Reason != c.reason {
				t.Errorf("DestructionHeld = %+v, want %s with %s", got, c.status, c.reason)
			}
		})
	}
}

// A manager that has just started knows nothing new.
func TestHeldOutlivesARestart(t *testing.T) {
	w := newWorld(t, infra("fr-par-1"), owner())
	w.reconcile(t, reports{"fr-par-1": {At: now(), Suspicious: true}})
	if got := w.reconcile(t, reports{}); !conditions.IsTrue(got, infrav1.DestructionHeldCondition) {
		t.Errorf("DestructionHeld = %+v, want what was known", conditions.Get(got, infrav1.DestructionHeldCondition))
	}
}

// Lost rights and what they hold back are told once, where an operator looks.
func TestTroubleIsToldOnce(t *testing.T) {
	w := newWorld(t, infra("fr-par-1"), owner())
	w.reconcile(t, reports{"fr-par-1": listed()})
	for range 3 {
		w.reconcile(t, reports{"fr-par-1": failing(cloud.KindUnauthorized, now())})
	}
	w.reconcile(t, reports{"fr-par-1": listed()})
	var told []string
	for len(w.events.Events) > 0 {
		kind, rest, _ := strings.Cut(<-w.events.Events, " ")
		reason, _, _ := strings.Cut(rest, " ")
		told = append(told, kind+" "+reason)
	}
	want := []string{
		"Warning " + infrav1.ReasonCredentialsRejected, "Warning " + infrav1.ReasonVendorFailing,
		"Normal " + infrav1.ReadyCondition, "Normal " + reasonNotHeld,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// What recovery may do says nothing about the Cluster's infrastructure.
func TestHeldIsNotUnready(t *testing.T) {
	disturbed := mac("a", "fr-par-1", infrav1.HostWiping)
	host.RecordDisruption(disturbed, now())
	got := newWorld(t, infra("fr-par-1"), owner(), disturbed).reconcile(t, reports{"fr-par-1": listed()})
	if !conditions.IsTrue(got, infrav1.DestructionHeldCondition) || !conditions.IsTrue(got, infrav1.ReadyCondition) {
		t.Errorf("conditions = %+v, want held and Ready", got.Status.Conditions)
	}
}

func TestUnknownZoneNamesTheKnownOnes(t *testing.T) {
	unknown := failing(cloud.KindUnknownZone, time.Time{})
	for says, c := range map[string]reports{
		"fr-par-9: the zone cannot be listed: list servers": {"fr-par-1": listed(), "fr-par-3": listed(), "fr-par-9": unknown},
		"known are: fr-par-1, fr-par-3":                     {"fr-par-1": listed(), "fr-par-3": listed(), "fr-par-9": unknown},
		"no other zone of this Cluster was":                 {"fr-par-9": unknown},
	} {
		got := newWorld(t, infra("fr-par-9", "fr-par-3", "fr-par-1"), owner()).reconcile(t, c)
		if message := conditions.GetMessage(got, infrav1.InventorySyncedCondition); !strings.Contains(message, says) {
			t.Errorf("message %q does not say %q", message, says)
		}
	}
}

func TestProvisionedNeverGoesBack(t *testing.T) {
	w := newWorld(t, infra("fr-par-1"), owner())
	w.reconcile(t, reports{"fr-par-1": listed()})
	if got := w.reconcile(t, reports{}); !ptr.Deref(got.Status.Initialization.Provisioned, false) || !conditions.IsTrue(got, infrav1.ReadyCondition) {
		t.Errorf("status = %+v after a restart of the inventory, want what was known", got.Status)
	}
}

func TestNothingNewWritesNothing(t *testing.T) {
	w := newWorld(t, infra("fr-par-1"), owner())
	w.reconcile(t, reports{"fr-par-1": listed()})
	w.writes = 0
	w.reconcile(t, reports{"fr-par-1": listed()})
	if w.writes != 0 {
		t.Errorf("%d writes, want none", w.writes)
	}
}

func TestContract_ExternallyManagedClusterIsLeftAlone(t *testing.T) {
	managed := infra("fr-par-1")
	managed.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "somebody"}
	leavesAlone(t, managed)
}

func TestAClusterWithoutAnOwnerIsLeftAlone(t *testing.T) {
	orphan := infra("fr-par-1")
	orphan.OwnerReferences = nil
	leavesAlone(t, orphan)
}

func leavesAlone(t *testing.T, c *infrav1.ScalewayAppleSiliconCluster) {
	t.Helper()
	w := newWorld(t, c, owner())
	w.reconcile(t, reports{"fr-par-1": listed()})
	if w.writes != 0 {
		t.Errorf("%d writes, want none", w.writes)
	}
}

func TestContract_PausedClusterIsLeftAloneAndSaysSo(t *testing.T) {
	for name, pause := range map[string]func(*clusterv1.Cluster, *infrav1.ScalewayAppleSiliconCluster){
		"Cluster": func(c *clusterv1.Cluster, _ *infrav1.ScalewayAppleSiliconCluster) { c.Spec.Paused = ptr.To(true) },
		"annotation": func(_ *clusterv1.Cluster, i *infrav1.ScalewayAppleSiliconCluster) {
			i.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, paused := owner(), infra("fr-par-1")
			pause(cluster, paused)
			got := newWorld(t, paused, cluster).reconcile(t, reports{"fr-par-1": listed()})
			if got.Status.Initialization.Provisioned != nil || len(got.Status.FailureDomains) != 0 || !conditions.IsTrue(got, clusterv1.PausedCondition) {
				t.Errorf("status = %+v, want Paused only", got.Status)
			}
		})
	}
}

// TestContract_WatchFilter: several instances share a cluster, each with its own label.
func TestContract_WatchFilter(t *testing.T) {
	for label, writes := range map[string]bool{"mine": true, "another's": false, "": false} {
		labelled := infra("fr-par-1")
		labelled.Labels = map[string]string{clusterv1.WatchLabel: label}
		w := newWorld(t, labelled, owner())
		r := &Reconciler{Client: w.client, Inventory: reports{"fr-par-1": listed()}, WatchFilter: "mine"}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(labelled)}); err != nil {
			t.Fatal(err)
		}
		if (w.writes > 0) != writes {
			t.Errorf("label %q: %d writes", label, w.writes)
		}
	}
}
