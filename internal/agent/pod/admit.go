package pod

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// VMResource is the extended resource of which a Node has one for each guest.
const VMResource corev1.ResourceName = "macfleet.dev/macos-vm"

// reasonUnsupported is the Pod's reason when it asks for what a VM cannot honour.
const reasonUnsupported = "UnsupportedField"

// tokenMountPath is where admission mounts the token of the service account.
const tokenMountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// Unsupported names the fields of a Pod that this agent cannot honour, by their
// path. It refuses what it does not know: fields that a later API version adds are
// named too, and none is ignored silently. Accepted without effect are only
// defaults and what admission adds to every Pod: the DNS policy, service links,
// and the volume with the service account's token, which is not mounted.
func Unsupported(p *corev1.Pod) []string {
	found := unsupportedIn("spec", p.Spec, acceptedOfPod)
	found = append(found, unsupportedPodSecurity(p.Spec.SecurityContext)...)
	if p.Spec.DNSPolicy == corev1.DNSNone {
		found = append(found, "spec.dnsPolicy")
	}
	for i, v := range p.Spec.Volumes {
		if !isTokenVolume(v) {
			found = append(found, fmt.Sprintf("spec.volumes[%d] (%s)", i, v.Name))
		}
	}
	if n := len(p.Spec.Containers); n != 1 {
		return append(found, fmt.Sprintf("spec.containers (%d containers, a VM is one)", n))
	}
	return append(found, unsupportedContainer(p.Spec)...)
}

// acceptedOfPod says which fields of a PodSpec are honoured, or looked at
// separately, or mean nothing to a VM.
func acceptedOfPod(field string) bool {
	return slices.Contains([]string{
		"containers", "volumes", "securityContext", "dnsPolicy",
		// Honoured by the agent.
		"restartPolicy", "terminationGracePeriodSeconds",
		// Honoured by others before the Pod came here.
		"nodeName", "nodeSelector", "affinity", "schedulerName", "tolerations", "priorityClassName", "priority",
		"preemptionPolicy", "topologySpreadConstraints", "schedulingGates",
		// Without effect, and on every Pod by default.
		"enableServiceLinks", "serviceAccountName", "serviceAccount", "automountServiceAccountToken",
	}, field)
}

func unsupportedContainer(spec corev1.PodSpec) []string {
	const path = "spec.containers[0]"
	c := spec.Containers[0]
	found := unsupportedIn(path, c, acceptedOfContainer)
	for i, port := range c.Ports {
		if port.HostPort != 0 || port.HostIP != "" {
			found = append(found, fmt.Sprintf("%s.ports[%d].hostPort", path, i))
		}
	}
	for i, m := range c.VolumeMounts {
		if m.MountPath != tokenMountPath || !mountsToken(spec, m.Name) {
			found = append(found, fmt.Sprintf("%s.volumeMounts[%d] (%s)", path, i, m.MountPath))
		}
	}
	found = append(found, unsupportedResources(path+".resources", c.Resources)...)
	return append(found, unsupportedSecurity(path+".securityContext", c.SecurityContext)...)
}

func acceptedOfContainer(field string) bool {
	return slices.Contains([]string{
		"name", "image", "imagePullPolicy", "resources", "ports", "volumeMounts", "securityContext",
		// Defaults without effect: there is no message file, and nothing is resized.
		"terminationMessagePath", "terminationMessagePolicy", "resizePolicy",
	}, field)
}

func unsupportedResources(path string, r corev1.ResourceRequirements) []string {
	known := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, VMResource}
	var found []string
	for list, resources := range map[string]corev1.ResourceList{"limits": r.Limits, "requests": r.Requests} {
		for name := range resources {
			if !slices.Contains(known, name) {
				found = append(found, fmt.Sprintf("%s.%s[%s]", path, list, name))
			}
		}
	}
	if len(r.Claims) > 0 {
		found = append(found, path+".claims")
	}
	slices.Sort(found)
	return found
}

// unsupportedPodSecurity accepts what restricted namespaces ask of every Pod, and
// a VM cannot break: it is not enforced, as nothing of the Pod runs on the host.
func unsupportedPodSecurity(s *corev1.PodSecurityContext) []string {
	if s == nil {
		return nil
	}
	found := unsupportedIn("spec.securityContext", *s, func(field string) bool {
		return field == "seccompProfile" || field == "runAsNonRoot"
	})
	return append(found, unsupportedSeccomp("spec.securityContext", s.SeccompProfile)...)
}

func unsupportedSecurity(path string, s *corev1.SecurityContext) []string {
	if s == nil {
		return nil
	}
	found := unsupportedIn(path, *s, func(field string) bool {
		return slices.Contains([]string{"seccompProfile", "runAsNonRoot", "allowPrivilegeEscalation", "capabilities", "privileged"}, field)
	})
	if s.Privileged != nil && *s.Privileged {
		found = append(found, path+".privileged")
	}
	if s.AllowPrivilegeEscalation != nil && *s.AllowPrivilegeEscalation {
		found = append(found, path+".allowPrivilegeEscalation")
	}
	if s.Capabilities != nil && len(s.Capabilities.Add) > 0 {
		found = append(found, path+".capabilities.add")
	}
	return append(found, unsupportedSeccomp(path, s.SeccompProfile)...)
}

func unsupportedSeccomp(path string, p *corev1.SeccompProfile) []string {
	if p == nil || p.Type == corev1.SeccompProfileTypeRuntimeDefault {
		return nil
	}
	return []string{path + ".seccompProfile"}
}

func isTokenVolume(v corev1.Volume) bool {
	return strings.HasPrefix(v.Name, "kube-api-access-") && v.Projected != nil
}

func mountsToken(spec corev1.PodSpec, volume string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume && isTokenVolume(v) })
}

// unsupportedIn names the fields of a struct that are set and not accepted, by
// their names in JSON. A pointer to false and an empty list count as not set.
func unsupportedIn(path string, value any, accepted func(field string) bool) []string {
	v := reflect.ValueOf(value)
	var found []string
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if isSet(v.Field(i)) && !accepted(name) {
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
