package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// FactLabels are the labels that say what a Mac is. The agent sets them, and no
// profile may.
func FactLabels() []string {
	return []string{
		corev1.LabelOSStable, corev1.LabelArchStable, corev1.LabelHostname,
		corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable, infrav1.FleetLabel,
	}
}

// Registration is what a document tells a Mac to register its Node with. What says what
// the Mac is stays on it, whatever a profile wants, and is left out.
func Registration(node document.Node) infrav1.RegistrationRecord {
	var told infrav1.RegistrationRecord
	for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
		if !slices.Contains(FactLabels(), key) {
			told.Labels = append(told.Labels, key)
		}
	}
	for _, taint := range node.Taints {
		told.Taints = append(told.Taints, TaintID(taint.Key, corev1.TaintEffect(taint.Effect)))
	}
	return told
}

// TaintID names a taint as records do: a Node has one at most of each.
func TaintID(key string, effect corev1.TaintEffect) string { return key + ":" + string(effect) }

// checkLabels names the first label, in the order of their keys, that cannot be.
func checkLabels(labels map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		switch wrong := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...); {
		case len(wrong) > 0:
			return fmt.Errorf("spec.node.labels: %.64q=%.64q is no label: %s", key, value, wrong[0])
		case slices.Contains(FactLabels(), key):
			return fmt.Errorf("spec.node.labels: %s says what each Mac is: leave it out, no profile changes it", key)
		case forbidden(key):
			return fmt.Errorf("spec.node.labels: a node may not set %s on itself: use a prefix of your own", key)
		}
	}
	return nil
}

// forbidden reports a label that the API server's admission NodeRestriction lets
// no node give itself: one of Kubernetes' own that is not the kubelet's.
func forbidden(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	below := func(parent string) bool { return domain == parent || strings.HasSuffix(domain, "."+parent) }
	if domain == key || key == corev1.LabelTopologyRegion || below("node.kubernetes.io") || below("kubelet.kubernetes.io") {
		return false
	}
	return below("kubernetes.io") || below("k8s.io")
}

// checkTaints names the first taint that cannot be. A Node takes no two of the
// same key and effect; those of Kubernetes come and go with a Node's health.
func checkTaints(taints []document.Taint) error {
	seen := map[string]bool{}
	for _, taint := range taints {
		if err := checkTaint(taint); err != nil {
			return err
		}
		identity := TaintID(taint.Key, corev1.TaintEffect(taint.Effect))
		if seen[identity] {
			return fmt.Errorf("spec.node.taints: %s is there twice: a Node has one taint at most of a key and an effect", identity)
		}
		seen[identity] = true
	}
	return nil
}

func checkTaint(taint document.Taint) error {
	if wrong := append(validation.IsQualifiedName(taint.Key), validation.IsValidLabelValue(taint.Value)...); len(wrong) > 0 {
		return fmt.Errorf("spec.node.taints: %.64q=%.64q is no taint: %s", taint.Key, taint.Value, wrong[0])
	}
	for _, own := range []string{"node.kubernetes.io/", "node-role.kubernetes.io/"} {
		if strings.HasPrefix(taint.Key, own) {
			return fmt.Errorf("spec.node.taints: %s is Kubernetes' own: use a prefix of your own", taint.Key)
		}
	}
	switch corev1.TaintEffect(taint.Effect) {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	}
	return fmt.Errorf("spec.node.taints: %.64q has the effect %.64q; known: NoSchedule, PreferNoSchedule, NoExecute", taint.Key, taint.Effect)
}
