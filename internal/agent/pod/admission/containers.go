package admission

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/state"
	"github.com/macfleet/macfleet/internal/agent/pod/volume"
)

// acceptedOfContainer are the fields of every container that are honoured, or
// looked at separately, or mean nothing to a VM.
func acceptedOfContainer() []string {
	return []string{
		"name", "image", "imagePullPolicy", "command", "args", "env", "envFrom", "resources", "ports", "volumeMounts", "securityContext",
		"terminationMessagePath", "terminationMessagePolicy",
		// A default without effect: nothing is resized.
		"resizePolicy",
	}
}

// ofCommand are fields that only a command in the guest has.
func ofCommand() []string { return []string{"workingDir", "tty", "stdin", "stdinOnce"} }

func unsupportedMain(path string, c corev1.Container) []string {
	if state.IsCommand(c) {
		return unsupportedService(path, c)
	}
	return unsupportedContainer(path, c, acceptedOfContainer())
}

// unsupportedService is for commands that run for as long as their Pod does. What else they
// accept is given.
func unsupportedService(path string, c corev1.Container, more ...string) []string {
	accepted := slices.Concat(acceptedOfContainer(), ofCommand(), probes(), []string{"lifecycle"}, more)
	return append(unsupportedContainer(path, c, accepted), unsupportedHandlers(path, c)...)
}

// unsupportedInit holds an init container to what it is here: one more command in
// the VM of the main container. A sidecar has what that one may have.
func unsupportedInit(path string, c corev1.Container) []string {
	var found []string
	if state.IsSidecar(c) {
		found = unsupportedService(path, c, "restartPolicy")
	} else {
		found = unsupportedContainer(path, c, append(acceptedOfContainer(), ofCommand()...))
	}
	if !state.IsCommand(c) {
		found = append(found, path+".command (an init container needs one, it runs in the VM of the main container)")
	}
	return found
}

// unlikeMain names what a container must have in common with the first one.
func unlikeMain(path string, c, main corev1.Container) []string {
	var found []string
	if c.Image != main.Image {
		found = append(found, path+".image (it must be that of the main container, they share a VM)")
	}
	if c.ImagePullPolicy != main.ImagePullPolicy && c.ImagePullPolicy != "" {
		found = append(found, path+".imagePullPolicy (it must be that of the main container, they share an image)")
	}
	return found
}

func unsupportedContainer(path string, c corev1.Container, accepted []string) []string {
	found := unsupportedIn(path, c, accepted...)
	for i, port := range c.Ports {
		found = append(found, unsupportedIn(fmt.Sprintf("%s.ports[%d]", path, i), port, "name", "containerPort", "protocol")...)
	}
	for i, from := range c.EnvFrom {
		found = append(found, unsupportedIn(fmt.Sprintf("%s.envFrom[%d]", path, i), from, "prefix", "configMapRef", "secretRef")...)
	}
	for i, v := range c.Env {
		at := fmt.Sprintf("%s.env[%d]", path, i)
		found = append(found, unsupportedIn(at, v, "name", "value", "valueFrom")...)
		if v.ValueFrom != nil {
			found = append(found, unsupportedIn(at+".valueFrom", *v.ValueFrom, "fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")...)
		}
	}
	found = append(found, unsupportedResources(path+".resources", c.Resources)...)
	return append(found, unsupportedSecurity(path+".securityContext", c.SecurityContext)...)
}

func unsupportedResources(path string, r corev1.ResourceRequirements) []string {
	known := []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, vmResource}
	found := unsupportedIn(path, r, "limits", "requests")
	for _, list := range []struct {
		name      string
		resources corev1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(list.resources)) {
			q := list.resources[name]
			at := fmt.Sprintf("%s.%s[%s]", path, list.name, name)
			switch {
			case !slices.Contains(known, name):
				found = append(found, at)
			case q.Sign() < 0:
				found = append(found, fmt.Sprintf("%s (%s is negative)", at, q.String()))
			case name == vmResource && q.CmpInt64(1) > 0:
				found = append(found, fmt.Sprintf("%s (%s, a Pod is one VM)", at, q.String()))
			}
		}
	}
	return found
}

// placed is a mount, where it is written, and the path it means.
type placed struct {
	at string
	corev1.VolumeMount
	path string
}

// unsupportedMounts looks at the mounts of all containers together, as there is one
// guest: the same mount may be in two, but not two mounts at one path, or one
// inside the other.
func unsupportedMounts(spec corev1.PodSpec) []string {
	var found []string
	var mounts []placed
	for _, m := range allMounts(spec) {
		found = append(found, unsupportedIn(m.at, m.VolumeMount, "name", "mountPath", "subPath", "subPathExpr", "readOnly", "recursiveReadOnly", "mountPropagation")...)
		if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
			found = append(found, fmt.Sprintf("%s.mountPropagation (%s)", m.at, *m.MountPropagation))
		}
		if m.SubPath != "" && !filepath.IsLocal(m.SubPath) {
			found = append(found, fmt.Sprintf("%s.subPath (%q leads out of the volume)", m.at, m.SubPath))
		}
		path, err := volume.MountPath(m.MountPath)
		if err != nil {
			found = append(found, fmt.Sprintf("%s.mountPath (%v)", m.at, err))
			continue
		}
		m.path = path
		if other, ok := inTheWay(mounts, m); ok {
			found = append(found, fmt.Sprintf("%s.mountPath (%s is at, in or around %s of %s)", m.at, path, other.path, other.at))
		}
		mounts = append(mounts, m)
	}
	return found
}

func allMounts(spec corev1.PodSpec) []placed {
	var list []placed
	add := func(kind string, containers []corev1.Container) {
		for i, c := range containers {
			for j, m := range c.VolumeMounts {
				list = append(list, placed{at: fmt.Sprintf("spec.%s[%d].volumeMounts[%d]", kind, i, j), VolumeMount: m})
			}
		}
	}
	add("initContainers", spec.InitContainers)
	add("containers", spec.Containers)
	return list
}

func inTheWay(mounts []placed, m placed) (placed, bool) {
	i := slices.IndexFunc(mounts, func(o placed) bool {
		same := o.path == m.path && o.Name == m.Name && o.SubPath == m.SubPath && o.SubPathExpr == m.SubPathExpr && o.ReadOnly == m.ReadOnly
		return !same && volume.Overlap(o.path, m.path)
	})
	if i < 0 {
		return placed{}, false
	}
	return mounts[i], true
}
