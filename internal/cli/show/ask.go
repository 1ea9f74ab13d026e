package show

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/cli/reasons"
)

// oneCommand is what the book has a person type about an object; empty: nothing, or not the same
// for all that its conditions ask of one.
func oneCommand(book reasons.Book, conditions []metav1.Condition, names map[string]string) string {
	asked := ""
	for _, c := range conditions {
		if !Unhealthy(c) || !book.Asks(c.Reason, c.Type) {
			continue
		}
		entry, _ := book.Find(c.Reason, c.Type)
		if len(entry.Commands) != 1 || asked != "" && asked != entry.Commands[0] {
			return ""
		}
		asked = entry.Commands[0]
	}
	command := reasons.Named(asked, names)
	if strings.Contains(command, "$") { // a place that has no name here
		return ""
	}
	return command
}

// clusterNames are what stands for places in commands about what belongs to a Cluster.
func clusterNames(object metav1.Object) map[string]string {
	return map[string]string{"NS": object.GetNamespace(), "CLUSTER": ClusterName(object)}
}
