package cluster

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

func TestWhatIsNotAsItShouldBeIsCounted(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R"}
	}
	for name, c := range map[string]struct {
		conditions []metav1.Condition
		want       string // credentials, held, synced
	}{
		"nothing known": {nil, "000"},
		"all is well": {[]metav1.Condition{
			condition(infrav1.CredentialsValidCondition, metav1.ConditionTrue),
			condition(infrav1.InventorySyncedCondition, metav1.ConditionTrue),
			condition(infrav1.DestructionHeldCondition, metav1.ConditionFalse),
		}, "000"},
		"nothing is": {[]metav1.Condition{
			condition(infrav1.CredentialsValidCondition, metav1.ConditionFalse),
			condition(infrav1.InventorySyncedCondition, metav1.ConditionFalse),
			condition(infrav1.DestructionHeldCondition, metav1.ConditionTrue),
		}, "111"},
		"no list yet": {[]metav1.Condition{
			condition(infrav1.CredentialsValidCondition, metav1.ConditionUnknown),
			condition(infrav1.InventorySyncedCondition, metav1.ConditionUnknown),
			condition(infrav1.DestructionHeldCondition, metav1.ConditionUnknown),
		}, "000"},
	} {
		infra := &infrav1.ScalewayAppleSiliconCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "macs"}}
		infra.Status.Conditions = c.conditions
		w := newWorld(t, infra)
		want := "# HELP macfleet_cluster_unhealthy 1 while a condition of a ScalewayAppleSiliconCluster is not as it should be, else 0.\n" +
			"# TYPE macfleet_cluster_unhealthy gauge\n"
		for i, kind := range []string{infrav1.CredentialsValidCondition, infrav1.DestructionHeldCondition, infrav1.InventorySyncedCondition} {
			want += `macfleet_cluster_unhealthy{condition="` + kind + `",name="macs",namespace="ns"} ` + c.want[i:i+1] + "\n"
		}
		if err := testutil.CollectAndCompare(newCollector(w.client), strings.NewReader(want)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
