{{/* What a schema can't say: values that are each in order and not together. */}}
{{- define "macfleet.checkValues" -}}
{{- $claimed := include "macfleet.claimNamePrefix" . -}}
{{- if hasPrefix .Values.pool.prefix $claimed -}}
{{- fail (printf "pool.prefix %q starts the names of claimed servers (%s…): choose another prefix" .Values.pool.prefix $claimed) -}}
{{- end -}}
{{- if and .Values.orphanReclaim.activeReclaim (hasPrefix $claimed .Values.pool.prefix) -}}
{{- fail (printf "orphanReclaim.activeReclaim: pool.prefix %q starts as the names of claimed servers do (%s…), so that a Mac of the pool could be taken for a stranded one: choose another prefix" .Values.pool.prefix $claimed) -}}
{{- end -}}
{{- if and (eq .Values.capi.remoteKubeconfig "externalSecret") (not .Values.capi.externalSecret.storeRef.name) -}}
{{- fail "capi.remoteKubeconfig is externalSecret: say in capi.externalSecret.storeRef.name which store holds the kubeconfig" -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkFleet" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $fleet := index . 2 -}}
{{- if hasPrefix $root.Values.pool.prefix (printf "%s%s-" (include "macfleet.claimNamePrefix" $root) $name) -}}
{{- fail (printf "fleets.%s: its Machines' names start with pool.prefix %q, so that their Macs would look free: name the fleet otherwise" $name $root.Values.pool.prefix) -}}
{{- end -}}
{{- if eq ($fleet.acquisition | default "Adopt") "Order" -}}
{{- if not $fleet.type -}}{{- fail (printf "fleets.%s orders servers: say in fleets.%s.type which, such as M2-L" $name $name) -}}{{- end -}}
{{- if $fleet.hostSelector -}}{{- fail (printf "fleets.%s orders servers: a hostSelector chooses among hosts that exist; leave it out" $name) -}}{{- end -}}
{{- end -}}
{{- end -}}
