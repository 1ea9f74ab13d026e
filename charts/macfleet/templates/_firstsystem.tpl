{{/* The first system's manager works on the same kinds in all namespaces: both would
claim, wipe and release the same Macs. helm template asks no cluster and finds none. */}}
{{- define "macfleet.checkFirstSystem" -}}
{{- range (lookup "apps/v1" "Deployment" "" "").items -}}
{{- $deployment := . -}}
{{- if ne (int (dig "spec" "replicas" 1 .)) 0 -}}
{{- range .spec.template.spec.containers -}}
{{- if regexMatch "(^|/)cluster-api-provider-(scaleway-applesilicon|tuist)([:@]|$)" .image -}}
{{- fail (printf "the first system's manager runs in this cluster, Deployment %s/%s: beside macfleet both would claim and wipe the same Macs; type: kubectl -n %s scale deployment %s --replicas=0 (docs/migrate.md)" $deployment.metadata.namespace $deployment.metadata.name $deployment.metadata.namespace $deployment.metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range (lookup "coordination.k8s.io/v1" "Lease" "" "").items -}}
{{- if and (eq .metadata.name "scaleway-applesilicon.infrastructure.cluster.x-k8s.io") .spec.holderIdentity .spec.renewTime -}}
{{- $age := sub (now | unixEpoch | int64) (.spec.renewTime | mustToDate "2006-01-02T15:04:05.999999Z07:00" | unixEpoch | int64) -}}
{{- if lt $age (add (int64 (.spec.leaseDurationSeconds | default 0)) 30) -}}
{{- fail (printf "the first system's manager %q runs in this cluster: it holds the lease %s/%s, and beside macfleet both would claim and wipe the same Macs; scale its Deployment to 0 and wait a minute (docs/migrate.md)" .spec.holderIdentity .metadata.namespace .metadata.name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
