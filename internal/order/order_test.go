package order

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/host"
)

func memory(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return clienttest.AsServed(clienttest.NewBuilder(scheme).Build())
}

// orderOf is the order of a Machine whose profile is p.
func orderOf(name string) *host.Host {
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}}
	m.Spec.Type, m.Spec.ProfileRef = "M2-L", &infrav1.ProfileReference{Name: "p"}
	m.Spec.HostRef = &infrav1.HostReference{Name: host.OrderName(name), ClaimToken: "t-" + name}
	claim := host.ClaimOf(m)
	return New(m, "fr-par-1", &claim)
}

func atMost(n int32) func() (*int32, error) { return func() (*int32, error) { return &n, nil } }

// A limit that is lowered while orders wait for one another holds for those that wait.
func TestALimitIsReadWhenItsOrderIsNext(t *testing.T) {
	c, limit := memory(t), int32(5)
	var placer Placer
	for i := range 4 {
		_, err := placer.Place(t.Context(), c, c, orderOf(fmt.Sprintf("m-%d", i)), func() (*int32, error) {
			if placer.mu.TryLock() {
				placer.mu.Unlock()
				t.Error("the limit is read while others are being placed")
			}
			limit--
			now := limit
			return &now, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	placed := &infrav1.ScalewayAppleSiliconHostList{}
	if err := c.List(t.Context(), placed); err != nil || len(placed.Items) != 2 {
		t.Errorf("%d orders placed, %v", len(placed.Items), err)
	}
}

func TestTheLimitHoldsForOrdersPlacedAtOnce(t *testing.T) {
	c, limit := memory(t), int32(3)
	var placer Placer
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if _, err := placer.Place(t.Context(), c, c, orderOf(fmt.Sprintf("m-%d", i)), atMost(limit)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	placed := &infrav1.ScalewayAppleSiliconHostList{}
	if err := c.List(t.Context(), placed); err != nil || len(placed.Items) != 3 {
		t.Errorf("%d orders placed, %v", len(placed.Items), err)
	}
	why, err := placer.Place(t.Context(), c, c, orderOf("late"), atMost(limit))
	if why == "" || err != nil {
		t.Errorf("one more than the limit: %q, %v", why, err)
	}
	if why, err := placer.Place(t.Context(), c, c, orderOf("m-20"), nil); why != "" || err != nil {
		t.Errorf("without a limit: %q, %v", why, err)
	}
	if _, err := placer.Place(t.Context(), c, c, orderOf("m-20"), nil); !apierrors.IsAlreadyExists(err) {
		t.Errorf("placed twice: %v", err)
	}
}

// The order is not its own server, and a copied token is no claim.
func TestTheServerOfAnOrderCarriesItsClaim(t *testing.T) {
	c, mine := memory(t), orderOf("m")
	other := host.New("fr-par-1", "1", "")
	other.Spec.ClaimRef = orderOf("n").Spec.ClaimRef
	other.Spec.ClaimRef.Token = mine.Spec.ClaimRef.Token
	made := host.New("fr-par-1", "2", "")
	made.Spec.ClaimRef = mine.Spec.ClaimRef
	for _, step := range []struct {
		add  *host.Host
		want string
	}{{mine, ""}, {other, ""}, {made, made.Name}} {
		if err := c.Create(t.Context(), step.add); err != nil {
			t.Fatal(err)
		}
		name := ""
		h, err := Delivered(t.Context(), c, *mine.Spec.ClaimRef)
		if h != nil {
			name = h.Name
		}
		if err != nil || name != step.want {
			t.Errorf("with %s: %q, %v; want %q", step.add.Name, name, err, step.want)
		}
	}
}

// A manager with a watch filter sends the orders of its own Machines.
func TestAnOrderHasTheWatchFilterOfItsMachine(t *testing.T) {
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m", Labels: map[string]string{clusterv1.WatchLabel: "mine", "a": "b"}}}
	if diff := cmp.Diff(map[string]string{clusterv1.WatchLabel: "mine"}, New(m, "fr-par-1", nil).Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestProgressIsWhatTheConditionSays(t *testing.T) {
	h := orderOf("m")
	for _, c := range []struct {
		status       metav1.ConditionStatus
		given, want  string
		wantsMessage string
	}{
		{"", "", infrav1.ReasonOrdering, "a server of type M2-L is being ordered in zone fr-par-1"},
		{metav1.ConditionFalse, infrav1.ReasonOutOfStock, infrav1.ReasonOutOfStock, "none left"},
		{metav1.ConditionTrue, "Ordered", infrav1.ReasonOrdering, "the server of order " + h.Name + " has no Host yet"},
	} {
		if c.given != "" {
			meta.SetStatusCondition(&h.Status.Conditions, metav1.Condition{Type: infrav1.OrderedCondition, Status: c.status, Reason: c.given, Message: "none left"})
		}
		if reason, message := Progress(h); reason != c.want || message != c.wantsMessage {
			t.Errorf("%s: %s %q", c.given, reason, message)
		}
	}
}
