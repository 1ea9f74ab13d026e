// Package admission says which Pods this node refuses and why, and which VM a Pod gets.
// Its only input besides the Pod is the host, whose Node is read for selectors.
package admission

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/macnode"
)

const vmResource = macnode.VMResource

// guestOS is what runs in a VM, in the words of spec.os.name.
const guestOS corev1.OSName = "darwin"

// runtimeClass is the RuntimeClass that the chart brings.
const runtimeClass = "macos"

// Unsupported names the fields of a Pod that this agent cannot honour, by their
// path. It looks at nothing but the Pod, so that its answer never changes. It
// refuses what it does not know: fields that a later API version adds are named
// too, and none is ignored silently. Accepted without effect are only defaults and
// what admission and controllers add to many Pods: the DNS policies but None,
// service links, host names of Indexed Jobs and StatefulSets, the
// path and policy of termination messages, resize policies, and of the security
// contexts what restricted namespaces ask for and no VM can break.
func Unsupported(p *corev1.Pod) []string {
	spec := p.Spec
	found := unsupportedIn("spec", spec,
		// Looked at below.
		"containers", "initContainers", "volumes", "securityContext", "dnsPolicy", "os", "hostUsers", "runtimeClassName", "overhead",
		// Honoured by the agent.
		"restartPolicy", "terminationGracePeriodSeconds", "activeDeadlineSeconds", "imagePullSecrets",
		"serviceAccountName", "serviceAccount", "automountServiceAccountToken", "readinessGates",
		// Honoured by others, and looked at again before the Pod begins.
		"nodeName", "nodeSelector", "affinity", "schedulerName", "tolerations", "priorityClassName", "priority",
		"preemptionPolicy", "topologySpreadConstraints", "schedulingGates", "schedulingGroup",
		// Without effect, and on every Pod by default, or on each of an Indexed Job or a
		// StatefulSet: the guest keeps its own name.
		"enableServiceLinks", "hostname", "subdomain",
		// Nobody can take one away again: each is refused in its own status, and the Pod goes on.
		"ephemeralContainers",
	)
	found = append(found, unsupportedClass(spec)...)
	found = append(found, unsupportedPodSecurity(spec.SecurityContext)...)
	if spec.DNSPolicy == corev1.DNSNone {
		found = append(found, "spec.dnsPolicy (None)")
	}
	if spec.OS != nil && spec.OS.Name != guestOS {
		found = append(found, fmt.Sprintf("spec.os.name (%s, guests are %s)", spec.OS.Name, guestOS))
	}
	if spec.HostUsers != nil && !*spec.HostUsers {
		found = append(found, "spec.hostUsers (false)")
	}
	found = append(found, unsupportedVolumes(spec.Volumes)...)
	found = append(found, unsupportedContainers(p)...)
	return append(found, unsupportedMounts(spec)...)
}

// unsupportedClass: an overhead is what the API server gives the Pods of a class.
func unsupportedClass(spec corev1.PodSpec) []string {
	var found []string
	class := ptr.Deref(spec.RuntimeClassName, "")
	if spec.RuntimeClassName != nil && class != runtimeClass {
		found = append(found, fmt.Sprintf("spec.runtimeClassName (%s, guests are of the class %s)", class, runtimeClass))
	}
	if len(spec.Overhead) > 0 && class != runtimeClass {
		found = append(found, "spec.overhead")
	}
	return found
}

// maxContainers of a Pod: the agent may hold two megabytes of variables and arguments of each.
const maxContainers = 64

// unsupportedContainers looks at each container: what a Pod must change is said at once.
func unsupportedContainers(p *corev1.Pod) []string {
	spec := p.Spec
	switch n := len(spec.InitContainers) + len(spec.Containers); {
	case len(spec.Containers) == 0:
		return []string{"spec.containers (0 containers, a VM is one at least)"}
	case n > maxContainers:
		return []string{fmt.Sprintf("spec.containers (%d with spec.initContainers, %d at most)", n, maxContainers)}
	}
	var found []string
	for i, c := range spec.Containers {
		path := fmt.Sprintf("spec.containers[%d]", i)
		found = append(found, unsupportedMain(path, c)...)
		if state.Several(p) && !state.IsCommand(c) {
			found = append(found, path+".command (each of several containers needs one, they run in one VM)")
		}
		found = append(found, unlikeMain(path, c, spec.Containers[0])...)
	}
	for i, c := range spec.InitContainers {
		path := fmt.Sprintf("spec.initContainers[%d]", i)
		found = append(found, unsupportedInit(path, c)...)
		found = append(found, unlikeMain(path, c, spec.Containers[0])...)
	}
	if vms := most(p, vmResource, requested); len(spec.Containers) > 1 && vms.CmpInt64(1) > 0 {
		found = append(found, fmt.Sprintf("spec.containers (%s of %s together, a Pod is one VM)", vms.String(), vmResource))
	}
	return found
}

// unsupportedPodSecurity accepts what restricted namespaces ask of every Pod, and
// a VM cannot break: it is not enforced, as nothing of the Pod runs on the host.
func unsupportedPodSecurity(s *corev1.PodSecurityContext) []string {
	if s == nil {
		return nil
	}
	found := unsupportedIn("spec.securityContext", *s, "seccompProfile", "runAsNonRoot")
	return append(found, unsupportedSeccomp("spec.securityContext", s.SeccompProfile)...)
}

func unsupportedSecurity(path string, s *corev1.SecurityContext) []string {
	if s == nil {
		return nil
	}
	found := unsupportedIn(path, *s, "seccompProfile", "runAsNonRoot", "capabilities", "procMount")
	if s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount {
		found = append(found, fmt.Sprintf("%s.procMount (%s)", path, *s.ProcMount))
	}
	if s.Capabilities != nil {
		found = append(found, unsupportedIn(path+".capabilities", *s.Capabilities, "drop")...)
	}
	return append(found, unsupportedSeccomp(path, s.SeccompProfile)...)
}

func unsupportedSeccomp(path string, p *corev1.SeccompProfile) []string {
	if p == nil || p.Type == corev1.SeccompProfileTypeRuntimeDefault {
		return nil
	}
	return []string{fmt.Sprintf("%s.seccompProfile (%s)", path, p.Type)}
}

// unsupportedIn names the fields of a struct that are set and not accepted, by
// their names in JSON. A pointer to false and an empty list count as not set.
// Fields of embedded structs count as the struct's own.
func unsupportedIn(path string, value any, accepted ...string) []string {
	return unsupportedOf(path, reflect.ValueOf(value), accepted)
}

func unsupportedOf(path string, v reflect.Value, accepted []string) []string {
	var found []string
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "" && value.Kind() == reflect.Struct:
			found = append(found, unsupportedOf(path, value, accepted)...)
		case isSet(value) && !slices.Contains(accepted, name):
			found = append(found, path+"."+name)
		}
	}
	return found
}

func isSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	case reflect.Pointer:
		return !v.IsNil() && (v.Elem().Kind() != reflect.Bool || v.Elem().Bool())
	}
	return !v.IsZero()
}
