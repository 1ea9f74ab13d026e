package template

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/servertype"
)

var m2l = cloud.ServerType{Name: "M2-L", Chip: "Apple M2 Pro", Cores: 10, MemoryBytes: 16_000_000_000, DiskBytes: 512_000_000_000}

// vendor is a vendor's list of types.
type vendor struct {
	types []cloud.ServerType
	err   error
	asked int
}

func (v *vendor) ServerTypes(context.Context, string) ([]cloud.ServerType, error) {
	v.asked++
	return v.types, v.err
}

// world is an API server with the controller and a vendor.
type world struct {
	*testing.T
	api    client.Client
	clock  *clocktesting.FakePassiveClock
	vendor vendor
	r      *Reconciler
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := infrav1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	w.vendor.types = []cloud.ServerType{m2l}
	w.api = clienttest.AsServed(clienttest.NewBuilder(s).WithObjects(objects...).WithStatusSubresource(&infrav1.ScalewayAppleSiliconMachineTemplate{}).Build())
	w.r = &Reconciler{Client: w.api, Vendor: &w.vendor, Clock: w.clock}
	return w
}

// look reconciles the template, and returns its status and when it is looked at again.
func (w *world) look() (infrav1.ScalewayAppleSiliconMachineTemplateStatus, time.Duration) {
	w.Helper()
	key := client.ObjectKey{Namespace: "fleet", Name: "burst"}
	result, err := w.r.Reconcile(w.Context(), ctrl.Request{NamespacedName: key})
	if err != nil {
		w.Fatal(err)
	}
	t := &infrav1.ScalewayAppleSiliconMachineTemplate{}
	if err := w.api.Get(w.Context(), key, t); err != nil {
		w.Fatal(err)
	}
	return t.Status, result.RequeueAfter
}

func template(kind string) *infrav1.ScalewayAppleSiliconMachineTemplate {
	t := &infrav1.ScalewayAppleSiliconMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "burst"}}
	t.Spec.Template.Spec = infrav1.MachineClass{Zone: "fr-par-1", Type: kind, ProfileRef: &infrav1.ProfileReference{Name: "burst"}}
	return t
}

func profile(change func(*infrav1.MacNodeProfileSpec)) *infrav1.MacNodeProfile {
	p := &infrav1.MacNodeProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "burst"}}
	change(&p.Spec)
	return p
}

func resources(cpu, memory, disk, pods, vms string) map[corev1.ResourceName]string {
	return map[corev1.ResourceName]string{"cpu": cpu, "memory": memory, "ephemeral-storage": disk, "pods": pods, "macfleet.dev/macos-vm": vms}
}

func plain(list corev1.ResourceList) map[corev1.ResourceName]string {
	out := map[corev1.ResourceName]string{}
	for name, quantity := range list {
		out[name] = quantity.String()
	}
	return out
}

// What Pods can have of a Mac, and of CPU and Pods what the autoscaler takes off for a
// kube-proxy.
func TestATemplateForetellsItsNodes(t *testing.T) {
	quota := resource.MustParse("300G")
	for name, c := range map[string]struct {
		kind    string
		profile *infrav1.MacNodeProfile
		want    map[corev1.ResourceName]string
	}{
		"a profile that says nothing": {"M2-L", profile(func(*infrav1.MacNodeProfileSpec) {}), resources("9600m", "14Gi", "479028480Ki", "3", "2")},
		"no profile yet":              {"M2-L", nil, resources("9600m", "14Gi", "479028480Ki", "3", "2")},
		"one guest a Mac":             {"M2-L", profile(func(s *infrav1.MacNodeProfileSpec) { s.Node.MaxVMs = 1 }), resources("9600m", "14Gi", "479028480Ki", "2", "1")},
		"a volume for guests":         {"M2-L", profile(func(s *infrav1.MacNodeProfileSpec) { s.Storage.Quota = &quota }), resources("9600m", "14Gi", "271997230Ki", "3", "2")},
		"any type":                    {"", nil, map[corev1.ResourceName]string{}},
		"a type that is not listed":   {"M9-X", nil, map[corev1.ResourceName]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{template(c.kind)}
			if c.profile != nil {
				objects = append(objects, c.profile)
			}
			status, _ := newWorld(t, objects...).look()
			if diff := cmp.Diff(c.want, plain(status.Capacity)); diff != "" {
				t.Errorf("capacity (-want +got):\n%s", diff)
			}
			if want := (infrav1.TemplateNodeInfo{Architecture: "arm64", OperatingSystem: "darwin"}); status.NodeInfo != want {
				t.Errorf("nodeInfo = %+v", status.NodeInfo)
			}
		})
	}
}

func TestTheCapacityFollowsTheProfile(t *testing.T) {
	p := profile(func(*infrav1.MacNodeProfileSpec) {})
	w := newWorld(t, template("M2-L"), p)
	w.look()
	p.Spec.Node.MaxVMs = 1
	if err := w.api.Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if woken := w.r.ofProfile(t.Context(), p); len(woken) != 1 || woken[0].Name != "burst" {
		t.Errorf("the profile wakes %v", woken)
	}
	other := p.DeepCopy()
	other.Name = "other"
	if woken := w.r.ofProfile(t.Context(), other); len(woken) != 0 {
		t.Errorf("another profile wakes %v", woken)
	}
	status, _ := w.look()
	if pods := status.Capacity.Pods().String(); pods != "2" {
		t.Errorf("pods = %s", pods)
	}
	if w.vendor.asked != 1 {
		t.Errorf("the vendor was asked %d times", w.vendor.asked)
	}
}

// A vendor that does not answer, or that stops selling a type, takes no Node away.
func TestWhatIsKnownOfATypeStays(t *testing.T) {
	w := newWorld(t, template("M2-L"))
	w.vendor.err = errors.New("no answer")
	status, again := w.look()
	if len(status.Capacity) != 0 || again != servertype.Retry {
		t.Fatalf("capacity = %v, again in %s", status.Capacity, again)
	}
	w.vendor.err = nil
	w.clock.SetTime(w.clock.Now().Add(again))
	known, again := w.look()
	if len(known.Capacity) == 0 || again != 0 {
		t.Fatalf("capacity = %v, again in %s", known.Capacity, again)
	}
	w.vendor.types = nil
	w.r.types = servertype.Types{} // another manager
	gone, again := w.look()
	if diff := cmp.Diff(plain(known.Capacity), plain(gone.Capacity)); diff != "" || again != servertype.AskAgain {
		t.Errorf("again in %s, capacity (-want +got):\n%s", again, diff)
	}
}
