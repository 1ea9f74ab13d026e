package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostSelector chooses hosts by their labels. It reads as a label selector does, with
// limits on what it may hold.
type HostSelector struct {
	// matchLabels are labels that a host must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317)",message="a label has a key of at most 317 characters"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// matchExpressions are demands on labels of a host, all of which must hold.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []HostSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label, as Kubernetes has it.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type LabelValue string

// HostSelectorRequirement is one demand on a label of a host.
type HostSelectorRequirement struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`
	// operator: In, NotIn, Exists or DoesNotExist.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator,omitempty"`
	// values to compare with, for In and NotIn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Values []LabelValue `json:"values,omitempty"`
}

// LabelSelector is the same selector as Kubernetes' own type; nil of nil.
func (s *HostSelector) LabelSelector() *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	selector := &metav1.LabelSelector{}
	for key, value := range s.MatchLabels {
		metav1.AddLabelToSelector(selector, key, string(value))
	}
	for _, one := range s.MatchExpressions {
		demand := metav1.LabelSelectorRequirement{Key: one.Key, Operator: one.Operator}
		for _, value := range one.Values {
			demand.Values = append(demand.Values, string(value))
		}
		selector.MatchExpressions = append(selector.MatchExpressions, demand)
	}
	return selector
}
