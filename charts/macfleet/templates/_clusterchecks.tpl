{{/* What the cluster lacks, or has from another release: one sentence each. helm template
asks no cluster, and sees no namespace. */}}
{{- define "macfleet.checkCluster" -}}
{{- if (lookup "v1" "Namespace" "" "").items -}}
{{- include "macfleet.checkCore" . -}}
{{- include "macfleet.checkRuntimeClass" . -}}
{{- include "macfleet.checkFleetsKept" . -}}
{{- include "macfleet.checkKubeconfigForm" . -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkCore" -}}
{{- if not (.Capabilities.APIVersions.Has "cluster.x-k8s.io/v1beta2") -}}
{{- fail "this cluster has no Cluster API of the contract v1beta2, which macfleet needs: install its core, 1.14 or later, first (docs/install.md)" -}}
{{- end -}}
{{- end -}}

{{/* helm upgrade with a value, and without a word about the others, forgets those. A fleet that
they lack is deleted, and each of its Macs wiped: that wants to be asked for. */}}
{{- define "macfleet.checkFleetsKept" -}}
{{- $wanted := list -}}
{{- range $key, $fleet := .Values.fleets -}}{{- $wanted = append $wanted (include "macfleet.fleetName" (list $ $key $fleet)) -}}{{- end -}}
{{- range (lookup "cluster.x-k8s.io/v1beta2" "MachineDeployment" .Release.Namespace "").items -}}
{{- $ours := eq $.Release.Name (dig "annotations" "meta.helm.sh/release-name" "" .metadata) -}}
{{- $macs := max (int (dig "spec" "replicas" 0 .)) (int (dig "status" "replicas" 0 .)) -}}
{{- if and $ours $macs (not (has .metadata.name $wanted)) -}}
{{- fail (printf "the values have no fleet named %s, whose %d Macs would be wiped: helm forgets all values when it is given one, so add --reset-then-reuse-values, or -f with all of them. To give the fleet up, scale it down first: kubectl -n %s scale machinedeployment %s --replicas=0" .metadata.name $macs .metadata.namespace .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A hook's object is not Helm's to delete: this one writes the Secret that the manager would mint. */}}
{{- define "macfleet.checkKubeconfigForm" -}}
{{- if and (eq .Values.capi.remoteKubeconfig "managed") (.Capabilities.APIVersions.Has "external-secrets.io/v1") -}}
{{- $secret := printf "%s-kubeconfig" (include "macfleet.cluster" .) -}}
{{- if lookup "external-secrets.io/v1" "ExternalSecret" .Release.Namespace $secret -}}
{{- fail (printf "capi.remoteKubeconfig is managed, and the ExternalSecret %s of before still writes the Secret of that name, with a token that ends: delete both first, and the manager makes the Secret anew: kubectl -n %s delete externalsecret,secret %s" $secret .Release.Namespace $secret) -}}
{{- end -}}
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
