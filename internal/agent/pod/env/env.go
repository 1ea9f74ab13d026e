package env

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
)

// Source gives objects that a Pod refers to. Errors that say NotFound or Forbidden
// match with k8s.io/apimachinery/pkg/api/errors.
type Source interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

// Facts of the host that a Pod may ask for.
type Facts struct {
	// HostIP is the Node's first address; empty when it has none.
	HostIP string
	// PodIP is the address of the Pod's guest, or what stands for it; empty: it has none.
	PodIP string
	// Allocatable of the Node stands in for limits that a container does not set.
	Allocatable corev1.ResourceList
	// APIServer is where the host reaches the API server, which a guest does as well; nil:
	// not known.
	APIServer *url.URL
}

// apiServer has the variables that clients in a cluster look for. A kubelet sets them
// whatever enableServiceLinks says.
func (f Facts) apiServer() map[string]string {
	if f.APIServer == nil || f.APIServer.Hostname() == "" {
		return nil
	}
	port := cmp.Or(f.APIServer.Port(), "443")
	return map[string]string{
		"KUBERNETES_SERVICE_HOST": f.APIServer.Hostname(), "KUBERNETES_SERVICE_PORT": port, "KUBERNETES_SERVICE_PORT_HTTPS": port,
	}
}

// maxBytes is what macOS lets a new process have of arguments and environment
// (ARG_MAX, sysctl kern.argmax).
const maxBytes = 1 << 20

// Resolve returns the environment of one container as NAME=value: envFrom in order,
// then env over it, each variable once and sorted by name. The only Service with
// variables is the API server, whatever enableServiceLinks says: guests have no cluster
// network.
// The error is a *ConfigError when the Pod or the objects it names are wrong, and
// something else when they could not be read.
func Resolve(ctx context.Context, p *corev1.Pod, c corev1.Container, src Source, f Facts) ([]string, error) {
	r := resolver{pod: p, container: c, src: src, facts: f, vars: map[string]string{}}
	for name, value := range f.apiServer() {
		if err := r.set(name, value); err != nil {
			return nil, at(c, "environment", err)
		}
	}
	for i, from := range c.EnvFrom {
		if err := r.takeAll(ctx, from); err != nil {
			return nil, at(c, fmt.Sprintf("envFrom[%d]", i), err)
		}
	}
	for i, v := range c.Env {
		if err := r.take(ctx, v); err != nil {
			return nil, at(c, fmt.Sprintf("env[%d] (%s)", i, v.Name), err)
		}
	}
	return r.list()
}

type resolver struct {
	pod       *corev1.Pod
	container corev1.Container
	src       Source
	facts     Facts
	vars      map[string]string
	// size is what the variables take in a process, in bytes.
	size int
}

// set sets a variable, as long as a process may have all of them.
func (r *resolver) set(name, value string) error {
	if old, there := r.vars[name]; there {
		r.size -= sizeOf(name, old)
	}
	r.vars[name] = value
	if r.size += sizeOf(name, value); r.size > maxBytes {
		return wrong("with it the environment has more than %d bytes, which is what macOS allows", maxBytes)
	}
	return nil
}

func sizeOf(name, value string) int { return len(name) + len(value) + len("=\x00") }

// takeAll lays all keys of one object over the variables so far.
func (r *resolver) takeAll(ctx context.Context, from corev1.EnvFromSource) error {
	switch {
	case from.ConfigMapRef != nil:
		m, err := r.configMap(ctx, from.ConfigMapRef.Name, from.ConfigMapRef.Optional)
		if err != nil || m == nil {
			return err
		}
		for k, v := range m.Data {
			if err := r.set(from.Prefix+k, v); err != nil {
				return err
			}
		}
	case from.SecretRef != nil:
		s, err := r.secret(ctx, from.SecretRef.Name, from.SecretRef.Optional)
		if err != nil || s == nil {
			return err
		}
		for k, v := range s.Data {
			if err := r.set(from.Prefix+k, string(v)); err != nil {
				return err
			}
		}
	default:
		return wrong("it names neither a ConfigMap nor a Secret")
	}
	return nil
}

// take sets one variable, unless its source is optional and not there.
func (r *resolver) take(ctx context.Context, v corev1.EnvVar) error {
	value, err := expand(v.Value, r.vars)
	found := true
	if v.Value == "" && v.ValueFrom != nil {
		value, found, err = r.valueFrom(ctx, v.ValueFrom)
	}
	if err != nil || !found {
		return err
	}
	return r.set(v.Name, value)
}

func (r *resolver) valueFrom(ctx context.Context, from *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = Field(r.pod, from.FieldRef.FieldPath, r.facts)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = Resource(r.pod, r.container.Name, from.ResourceFieldRef, r.facts)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		return r.configMapKey(ctx, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return r.secretKey(ctx, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return "", false, wrong("fileKeyRef is not supported")
	}
	return "", false, wrong("its source is of a kind that is not supported")
}

func (r *resolver) configMapKey(ctx context.Context, ref *corev1.ConfigMapKeySelector) (string, bool, error) {
	m, err := r.configMap(ctx, ref.Name, ref.Optional)
	if err != nil || m == nil {
		return "", false, err
	}
	if value, found := m.Data[ref.Key]; found || ptr.Deref(ref.Optional, false) {
		return value, found, nil
	}
	return "", false, wrong("ConfigMap %s/%s has no key %q", r.pod.Namespace, ref.Name, ref.Key)
}

func (r *resolver) secretKey(ctx context.Context, ref *corev1.SecretKeySelector) (string, bool, error) {
	s, err := r.secret(ctx, ref.Name, ref.Optional)
	if err != nil || s == nil {
		return "", false, err
	}
	if value, found := s.Data[ref.Key]; found || ptr.Deref(ref.Optional, false) {
		return string(value), found, nil
	}
	return "", false, wrong("Secret %s/%s has no key %q", r.pod.Namespace, ref.Name, ref.Key)
}

// configMap is nil without an error when it is optional and not there.
func (r *resolver) configMap(ctx context.Context, name string, optional *bool) (*corev1.ConfigMap, error) {
	m, err := r.src.ConfigMap(ctx, r.pod.Namespace, name)
	if err != nil {
		return nil, Unreadable("ConfigMap", r.pod.Namespace, name, ptr.Deref(optional, false), err)
	}
	return m, nil
}

func (r *resolver) secret(ctx context.Context, name string, optional *bool) (*corev1.Secret, error) {
	s, err := r.src.Secret(ctx, r.pod.Namespace, name)
	if err != nil {
		return nil, Unreadable("Secret", r.pod.Namespace, name, ptr.Deref(optional, false), err)
	}
	return s, nil
}

// Unreadable turns the failure to read an object into what it means for a Pod: nil
// when it is optional and not there, a *ConfigError when it is missing or
// forbidden, else the error with the object's name.
func Unreadable(kind, namespace, name string, optional bool, err error) error {
	switch {
	case apierrors.IsNotFound(err) && optional:
		return nil
	case apierrors.IsNotFound(err):
		return wrong("%s %s/%s does not exist", kind, namespace, name)
	case apierrors.IsForbidden(err):
		return wrong("%s %s/%s may not be read by this node", kind, namespace, name)
	}
	return fmt.Errorf("reading %s %s/%s: %w", kind, namespace, name, err)
}

// list checks what no process could be started with.
func (r *resolver) list() ([]string, error) {
	list := make([]string, 0, len(r.vars))
	for _, name := range slices.Sorted(maps.Keys(r.vars)) {
		if len(validation.IsRelaxedEnvVarName(name)) > 0 {
			return nil, at(r.container, "environment", wrong("%q is no name of a variable", name))
		}
		if strings.ContainsRune(r.vars[name], 0) {
			return nil, at(r.container, "environment", wrong("the value of %s has a NUL byte, which no environment can hold", name))
		}
		list = append(list, name+"="+r.vars[name])
	}
	return list, nil
}
