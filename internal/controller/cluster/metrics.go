package cluster

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
)

// collector tells at each scrape, from the cache, which conditions of the Clusters are
// not as they should be.
type collector struct {
	reader    client.Reader
	unhealthy *prometheus.Desc
}

func newCollector(reader client.Reader) *collector {
	return &collector{reader: reader, unhealthy: prometheus.NewDesc("macfleet_cluster_unhealthy",
		"1 while a condition of a ScalewayAppleSiliconCluster is not as it should be, else 0.", []string{"namespace", "name", "condition"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) { out <- c.unhealthy }

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	list := &infrav1.ScalewayAppleSiliconClusterList{}
	if err := c.reader.List(context.Background(), list); err != nil {
		out <- prometheus.NewInvalidMetric(c.unhealthy, err)
		return
	}
	for i := range list.Items {
		infra := &list.Items[i]
		for _, kind := range []string{infrav1.CredentialsValidCondition, infrav1.InventorySyncedCondition, infrav1.DestructionHeldCondition} {
			value := 0.0
			if known := conditions.Get(infra, kind); known != nil && unhealthy(known) {
				value = 1
			}
			out <- prometheus.MustNewConstMetric(c.unhealthy, prometheus.GaugeValue, value, infra.Namespace, infra.Name, kind)
		}
	}
}

// unhealthy: nothing should be held, and all else should be True. What is not known
// yet is no news.
func unhealthy(c *metav1.Condition) bool {
	if c.Type == infrav1.DestructionHeldCondition {
		return c.Status == metav1.ConditionTrue
	}
	return c.Status == metav1.ConditionFalse
}
