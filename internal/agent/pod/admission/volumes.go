package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/internal/agent/pod/volume"
	"github.com/macfleet/macfleet/internal/agent/vm"
)

// unsupportedVolumes names volumes of types that a VM cannot have, and what cannot
// be honoured of the others.
func unsupportedVolumes(volumes []corev1.Volume) []string {
	var found []string
	for i, v := range volumes {
		path := fmt.Sprintf("spec.volumes[%d]", i)
		for _, field := range unsupportedIn(path, v, "name", "emptyDir", "configMap", "secret", "downwardAPI", "projected", "hostPath") {
			found = append(found, fmt.Sprintf("%s (volume %s)", field, v.Name))
		}
		found = append(found, unsupportedSource(path, v.VolumeSource)...)
	}
	if volume.Memory(volumes) > volume.MaxMemory {
		found = append(found, fmt.Sprintf("spec.volumes (emptyDirs of medium Memory hold %d MiB together at most, and %d MiB each where sizeLimit is not set)",
			volume.MaxMemory>>20, volume.DefaultMemory>>20))
	}
	return found
}

func unsupportedSource(path string, s corev1.VolumeSource) []string {
	switch {
	case s.EmptyDir != nil:
		return unsupportedEmptyDir(path+".emptyDir", *s.EmptyDir)
	case s.HostPath != nil:
		return unsupportedHostPath(path+".hostPath", *s.HostPath)
	case s.ConfigMap != nil:
		return unsupportedIn(path+".configMap", *s.ConfigMap, "name", "items", "defaultMode", "optional")
	case s.Secret != nil:
		return unsupportedIn(path+".secret", *s.Secret, "secretName", "items", "defaultMode", "optional")
	case s.DownwardAPI != nil:
		return unsupportedIn(path+".downwardAPI", *s.DownwardAPI, "items", "defaultMode")
	case s.Projected != nil:
		return unsupportedProjected(path+".projected", *s.Projected)
	}
	return nil
}

func unsupportedEmptyDir(path string, e corev1.EmptyDirVolumeSource) []string {
	found := unsupportedIn(path, e, "medium", "sizeLimit")
	if e.Medium != corev1.StorageMediumDefault && e.Medium != corev1.StorageMediumMemory {
		found = append(found, fmt.Sprintf("%s.medium (%s)", path, e.Medium))
	}
	return found
}

func unsupportedHostPath(path string, h corev1.HostPathVolumeSource) []string {
	found := unsupportedIn(path, h, "path", "type")
	if h.Path != "" && !vm.Shareable(h.Path) {
		found = append(found, fmt.Sprintf("%s.path (%q: an absolute path without colons, commas and control characters can be shared with a VM)", path, h.Path))
	}
	if h.Type == nil {
		return found
	}
	switch *h.Type {
	case corev1.HostPathUnset, corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate:
		return found
	}
	return append(found, fmt.Sprintf("%s.type (%s, only directories can be shared with a VM)", path, *h.Type))
}

func unsupportedProjected(path string, p corev1.ProjectedVolumeSource) []string {
	found := unsupportedIn(path, p, "sources", "defaultMode")
	for i, s := range p.Sources {
		at := fmt.Sprintf("%s.sources[%d]", path, i)
		found = append(found, unsupportedIn(at, s, "secret", "configMap", "downwardAPI", "serviceAccountToken")...)
		if s.ServiceAccountToken != nil {
			found = append(found, unsupportedIn(at+".serviceAccountToken", *s.ServiceAccountToken, "audience", "expirationSeconds", "path")...)
		}
	}
	return found
}
