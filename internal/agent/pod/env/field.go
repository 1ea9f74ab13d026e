package env

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Field is one field of a Pod as the downward API gives it, by its path. The address of
// the Pod is the guest's own, which means nothing outside its host.
func Field(p *corev1.Pod, path string, f Facts) (string, error) {
	if value, ok, err := entry(p, path); ok || err != nil {
		return value, err
	}
	switch path {
	case "metadata.name":
		return p.Name, nil
	case "metadata.namespace":
		return p.Namespace, nil
	case "metadata.uid":
		return string(p.UID), nil
	case "metadata.labels":
		return lines(p.Labels), nil
	case "metadata.annotations":
		return lines(p.Annotations), nil
	case "spec.nodeName":
		return p.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return f.HostIP, nil
	case "status.podIP", "status.podIPs":
		return f.PodIP, nil
	}
	return "", wrong("fieldRef %q is not supported", path)
}

// entry reads one label or annotation, written like metadata.labels['key']. One
// that is not there is empty, as in a kubelet.
func entry(p *corev1.Pod, path string) (value string, ok bool, err error) {
	name, rest, ok := strings.Cut(path, "[")
	if !ok {
		return "", false, nil
	}
	key, closed := strings.CutSuffix(rest, "']")
	key, opened := strings.CutPrefix(key, "'")
	if !closed || !opened {
		return "", false, wrong("fieldRef %q: the key must stand in ['…']", path)
	}
	switch name {
	case "metadata.labels":
		return p.Labels[key], true, nil
	case "metadata.annotations":
		return p.Annotations[key], true, nil
	}
	return "", false, wrong("fieldRef %q: only labels and annotations have keys", path)
}

// lines is a map as files of the downward API hold it: key="value", sorted.
func lines(m map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, key+"="+strconv.Quote(m[key]))
	}
	return strings.Join(list, "\n")
}

// Resource is one request or limit of a container, in units of the divisor and
// rounded up. own is the container to look at when ref names none. A CPU, memory
// or storage limit that is not set is what the node can give.
func Resource(p *corev1.Pod, own string, ref *corev1.ResourceFieldSelector, f Facts) (string, error) {
	name := cmp.Or(ref.ContainerName, own)
	c, ok := container(p, name)
	if !ok {
		return "", wrong("resourceFieldRef: the Pod has no container %q", name)
	}
	list, resourceName, ok := strings.Cut(ref.Resource, ".")
	from := map[string]corev1.ResourceList{"limits": c.Resources.Limits, "requests": c.Resources.Requests}[list]
	if !ok || (list != "limits" && list != "requests") {
		return "", wrong("resourceFieldRef %q: it must begin with limits. or requests.", ref.Resource)
	}
	known := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}
	if !slices.Contains(known, corev1.ResourceName(resourceName)) {
		return "", wrong("resourceFieldRef %q: only cpu, memory and ephemeral-storage are known here", ref.Resource)
	}
	q, set := from[corev1.ResourceName(resourceName)]
	if list == "limits" && (!set || q.IsZero()) {
		q = f.Allocatable[corev1.ResourceName(resourceName)]
	}
	return units(q, ref.Divisor, resourceName == string(corev1.ResourceCPU))
}

// units divides and rounds up. CPUs count in thousandths, all else in ones; a
// divisor that is not set is one.
func units(q, divisor resource.Quantity, cpu bool) (string, error) {
	if divisor.Sign() < 0 {
		return "", wrong("resourceFieldRef: the divisor %s is negative", divisor.String())
	}
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, by := q.Value(), divisor.Value()
	if cpu {
		value, by = q.MilliValue(), divisor.MilliValue()
	}
	whole := value / by
	if value%by > 0 {
		whole++
	}
	return strconv.FormatInt(whole, 10), nil
}

func container(p *corev1.Pod, name string) (corev1.Container, bool) {
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		if c.Name == name {
			return c, true
		}
	}
	return corev1.Container{}, false
}

// Script writes an environment as a POSIX shell reads it, for guests that are
// given it as a file. Names that are legal in a Pod but not in a shell are left
// out and named in a comment.
func Script(list []string) []byte {
	var out strings.Builder
	for _, v := range list {
		name, value, _ := strings.Cut(v, "=")
		if !isIdentifier(name) {
			fmt.Fprintf(&out, "# %q is no name for a shell variable and is left out.\n", name)
			continue
		}
		fmt.Fprintf(&out, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	return []byte(out.String())
}

func isIdentifier(name string) bool {
	for i, r := range name {
		letter := r == '_' || (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z')
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
