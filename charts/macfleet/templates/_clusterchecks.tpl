{{/* What the cluster lacks, or has from another release: one sentence each. helm template
asks no cluster, and sees no namespace. */}}
{{- define "macfleet.checkCluster" -}}
{{- if (lookup "v1" "Namespace" "" "").items -}}
{{- include "macfleet.checkCore" . -}}
{{- include "macfleet.checkRuntimeClass" . -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkCore" -}}
{{- if not (.Capabilities.APIVersions.Has "cluster.x-k8s.io/v1beta2") -}}
{{- fail "this cluster has no Cluster API of the contract v1beta2, which macfleet needs: install its core, 1.14 or later, first (docs/install.md)" -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkRuntimeClass" -}}
{{- if .Values.runtimeClass.enabled -}}
{{- with lookup "node.k8s.io/v1" "RuntimeClass" "" "macos" -}}
{{- $namespace := dig "annotations" "meta.helm.sh/release-namespace" "" .metadata -}}
{{- $release := dig "annotations" "meta.helm.sh/release-name" "" .metadata -}}
{{- if and $release (or (ne $release $.Release.Name) (ne $namespace $.Release.Namespace)) -}}
{{- fail (printf "the RuntimeClass macos is of the release %s/%s: a cluster has one of that name, so set runtimeClass.enabled=false here" $namespace $release) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
