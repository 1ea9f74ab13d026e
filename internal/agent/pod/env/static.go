package env

import corev1 "k8s.io/api/core/v1"

// Static expands $(NAME) in the command of a probe, as a kubelet does: from the variables
// of the container, of which those with another source than a value count as empty.
func Static(argv []string, list []corev1.EnvVar) ([]string, error) {
	vars := make(map[string]string, len(list))
	for _, v := range list {
		vars[v.Name] = v.Value
	}
	return expandAll(argv, vars)
}
