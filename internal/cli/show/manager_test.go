package show

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/macfleet/macfleet/internal/cli/clitest"
	"github.com/macfleet/macfleet/internal/cli/cluster"
	"github.com/macfleet/macfleet/internal/cli/reasons"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
)

func lease(namespace string, ago time.Duration) coordinationv1.Lease {
	at := metav1.NewMicroTime(clitest.Now().Add(-ago))
	return coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cluster.ManagerLease}, Spec: coordinationv1.LeaseSpec{RenewTime: &at},
	}
}

// A manager that stopped is told where nobody else does its work, or where it has clusters.
func TestAManagerThatStopped(t *testing.T) {
	const here = clitest.Namespace
	for name, c := range map[string]struct {
		leases []coordinationv1.Lease
		want   []string
	}{
		"works":                       {[]coordinationv1.Lease{lease(here, 2*time.Second)}, nil},
		"stopped":                     {[]coordinationv1.Lease{lease(here, 12*time.Minute)}, []string{here}},
		"another's works":             {[]coordinationv1.Lease{lease(here, 12*time.Minute), lease("other", time.Second)}, []string{here}},
		"a release that was removed":  {[]coordinationv1.Lease{lease(here, time.Second), lease("removed", 24*time.Hour)}, nil},
		"both stopped":                {[]coordinationv1.Lease{lease(here, time.Hour), lease("other", time.Hour)}, []string{here, "other"}},
		"not asked for, or forbidden": {nil, nil},
	} {
		s := clitest.Fleet()
		s.Leases = c.leases
		var got []string
		for _, i := range StatusOf(s, reasons.Read()).Person {
			if i.Kind == "manager" {
				got = append(got, i.Namespace)
			}
		}
		if len(got) != len(c.want) {
			t.Errorf("%s: tells of %v, want %v", name, got, c.want)
		}
	}
	s := clitest.Fleet()
	s.Leases = []coordinationv1.Lease{lease(here, 12*time.Minute)}
	first := StatusOf(s, reasons.Read()).Person[0]
	if first.Reason != noManager || !first.Since.Equal(clitest.Now().Add(-12*time.Minute)) || first.Command != "kubectl -n "+here+" get deployments,pods -l app.kubernetes.io/name=macfleet" {
		t.Errorf("the first thing that is told is %+v", first)
	}
}

// Where no manager ever had a Lease that is told, too, but not of one namespace's sake.
func TestNoManagerEver(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	indexed := func(objects ...client.Object) client.Client {
		return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithIndex(&coordinationv1.Lease{}, metav1.ObjectNameField, func(o client.Object) []string {
			return []string{o.GetName()}
		}).Build()
	}
	for namespace, want := range map[string]int{"": 1, "team-a": 0} {
		s, err := snapshot.Load(t.Context(), indexed(), namespace, snapshot.Leases)
		if err != nil {
			t.Fatal(err)
		}
		if got := NoManager(s); len(got) != 0 {
			t.Errorf("without a cluster: %+v", got)
		}
		s.Zones = clitest.Fleet().Zones
		if got := NoManager(s); len(got) != want {
			t.Errorf("namespace %q: %+v", namespace, got)
		}
	}
	live := lease(clitest.Namespace, 0)
	live.Spec.RenewTime = ptr.To(metav1.NowMicro())
	s, err := snapshot.Load(t.Context(), indexed(&live), "", snapshot.Leases)
	if err != nil {
		t.Fatal(err)
	}
	if got := NoManager(s); len(s.Leases) != 1 || len(got) != 0 {
		t.Errorf("has %d Leases, tells %+v", len(s.Leases), got)
	}
}
