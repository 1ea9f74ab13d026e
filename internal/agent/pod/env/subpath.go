package env

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// WithSubPaths is the container with the subPathExpr of its mounts expanded from env, which
// is that of Resolve. The error is a *ConfigError.
func WithSubPaths(c corev1.Container, env []string) (corev1.Container, error) {
	vars := variables(env)
	c.VolumeMounts = slices.Clone(c.VolumeMounts)
	for i, m := range c.VolumeMounts {
		if m.SubPathExpr == "" {
			continue
		}
		sub, err := subPath(m.SubPathExpr, vars)
		if err != nil {
			return c, at(c, fmt.Sprintf("volumeMounts[%d].subPathExpr (%s)", i, m.SubPathExpr), err)
		}
		c.VolumeMounts[i].SubPath, c.VolumeMounts[i].SubPathExpr = sub, ""
	}
	return c, nil
}

// maxSubPath is PATH_MAX of macOS. A Pod may have thousands of mounts.
const maxSubPath = 1024

// subPath refuses what a kubelet does: a variable that there is not, and a path that is
// absolute or leads up.
func subPath(expression string, vars map[string]string) (string, error) {
	missing := ""
	sub, err := expandBy(expression, func(name string) (string, bool) {
		value, known := vars[name]
		if !known && missing == "" {
			missing = name
		}
		return value, known
	})
	switch {
	case err != nil:
		return "", err
	case len(sub) > maxSubPath:
		return "", wrong("it expands to more than %d bytes, which no path may have", maxSubPath)
	case missing != "":
		return "", wrong("there is no variable %q", missing)
	case filepath.IsAbs(sub):
		return "", wrong("it expands to an absolute path")
	case slices.Contains(strings.Split(sub, "/"), ".."):
		return "", wrong("it expands to a path that leads up")
	case strings.ContainsFunc(sub, func(r rune) bool { return r < ' ' }):
		return "", wrong("it expands to a path with a control character, or to the Pod's address, which nobody knows yet")
	}
	return sub, nil
}
