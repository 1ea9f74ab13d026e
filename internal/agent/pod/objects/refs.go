package objects

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Kind of an object.
type Kind string

// The kinds that Pods refer to.
const (
	Secret    Kind = "Secret"
	ConfigMap Kind = "ConfigMap"
)

// Ref names one object.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

func (r Ref) String() string { return string(r.Kind) + " " + r.Namespace + "/" + r.Name }

// Refs lists every object that the environment, the volumes and the pull secrets
// of a Pod refer to, each once and in a fixed order.
func Refs(p *corev1.Pod) []Ref {
	c := collector{namespace: p.Namespace, seen: map[Ref]bool{}}
	for _, s := range p.Spec.ImagePullSecrets {
		c.add(Secret, s.Name)
	}
	for _, container := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		c.container(container)
	}
	for _, v := range p.Spec.Volumes {
		c.volume(v)
	}
	return c.sorted()
}

type collector struct {
	namespace string
	seen      map[Ref]bool
}

func (c collector) add(kind Kind, name string) {
	if name != "" {
		c.seen[Ref{Kind: kind, Namespace: c.namespace, Name: name}] = true
	}
}

func (c collector) container(container corev1.Container) {
	for _, from := range container.EnvFrom {
		if from.SecretRef != nil {
			c.add(Secret, from.SecretRef.Name)
		}
		if from.ConfigMapRef != nil {
			c.add(ConfigMap, from.ConfigMapRef.Name)
		}
	}
	for _, v := range container.Env {
		if v.ValueFrom == nil {
			continue
		}
		if ref := v.ValueFrom.SecretKeyRef; ref != nil {
			c.add(Secret, ref.Name)
		}
		if ref := v.ValueFrom.ConfigMapKeyRef; ref != nil {
			c.add(ConfigMap, ref.Name)
		}
	}
}

func (c collector) volume(v corev1.Volume) {
	if v.Secret != nil {
		c.add(Secret, v.Secret.SecretName)
	}
	if v.ConfigMap != nil {
		c.add(ConfigMap, v.ConfigMap.Name)
	}
	if v.Projected == nil {
		return
	}
	for _, source := range v.Projected.Sources {
		if source.Secret != nil {
			c.add(Secret, source.Secret.Name)
		}
		if source.ConfigMap != nil {
			c.add(ConfigMap, source.ConfigMap.Name)
		}
	}
}

func (c collector) sorted() []Ref {
	refs := make([]Ref, 0, len(c.seen))
	for r := range c.seen {
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return refs
}
