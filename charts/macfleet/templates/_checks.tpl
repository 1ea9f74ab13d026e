{{/* What a schema can't say, or not in words that help: one sentence each. */}}
{{- define "macfleet.checkValues" -}}
{{- include "macfleet.checkOldValues" . -}}
{{- include "macfleet.checkNames" . -}}
{{- include "macfleet.checkFirstSystem" . -}}
{{- include "macfleet.checkCluster" . -}}
{{- include "macfleet.checkPool" . -}}
{{- include "macfleet.checkPoolPrefixes" . -}}
{{- if and (eq .Values.capi.remoteKubeconfig "externalSecret") (not .Values.capi.externalSecret.storeRef.name) -}}
{{- fail "capi.remoteKubeconfig is externalSecret: say in capi.externalSecret.storeRef.name which store holds the kubeconfig" -}}
{{- end -}}
{{- with .Values.cluster.name -}}
{{- if not (regexMatch "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" .) -}}
{{- fail (printf "cluster.name %q is no name of an object: up to 63 lower-case letters, digits and dashes, a letter or digit at both ends" .) -}}
{{- end -}}
{{- end -}}
{{- include "macfleet.checkManager" . -}}
{{- range $name, $fleet := .Values.fleets -}}{{- include "macfleet.checkFleet" (list $ $name $fleet) -}}{{- end -}}
{{- end -}}

{{- define "macfleet.checkPool" -}}
{{- $prefix := .Values.pool.prefix -}}
{{- if not (hasSuffix "-" $prefix) -}}
{{- fail (printf "pool.prefix %q: end it in a dash, as in %q; names are the prefix and the server's id" $prefix (printf "%s-" $prefix)) -}}
{{- end -}}
{{- if not (regexMatch "^[a-z0-9][a-z0-9-]{1,38}-$" $prefix) -}}
{{- fail (printf "pool.prefix %q: 3 to 40 lower-case letters, digits and dashes, a letter or digit first, such as tuist-pool-" $prefix) -}}
{{- end -}}
{{- $claimed := include "macfleet.claimNamePrefix" . -}}
{{- if hasPrefix $prefix $claimed -}}
{{- fail (printf "pool.prefix %q starts the names of claimed servers (%s…): choose another prefix" $prefix $claimed) -}}
{{- end -}}
{{- if and .Values.orphanReclaim.activeReclaim (hasPrefix $claimed $prefix) -}}
{{- fail (printf "orphanReclaim.activeReclaim: pool.prefix %q starts as the names of claimed servers do (%s…), so that a Mac of the pool could be taken for a stranded one: choose another prefix" $prefix $claimed) -}}
{{- end -}}
{{- end -}}

{{- define "macfleet.checkManager" -}}
{{- $manager := .Values.manager -}}
{{- if le (float64 $manager.vendorQPS) 0.0 -}}
{{- fail (printf "manager.vendorQPS %v: the manager has to call the vendor; give a number above 0" $manager.vendorQPS) -}}
{{- end -}}
{{- if and $manager.profiling $manager.insecureMetrics -}}
{{- fail "manager.insecureMetrics asks nobody for a token, and profiles show what is in memory: leave it out, or manager.profiling" -}}
{{- end -}}
{{- if and $manager.metricsCertSecret $manager.insecureMetrics -}}
{{- fail "manager.insecureMetrics serves metrics without TLS: leave it out, or manager.metricsCertSecret" -}}
{{- end -}}
{{- range $name := list "inventoryInterval" "bootstrapRecoverAfter" "reinstallTimeout" "reclaimInterval" -}}
{{- include "macfleet.checkTime" (list (printf "manager.%s" $name) (get $manager $name)) -}}
{{- end -}}
{{- if ne (toString $manager.driftCheckInterval) "0" -}}{{- include "macfleet.checkTime" (list "manager.driftCheckInterval" (toString $manager.driftCheckInterval)) -}}{{- end -}}
{{- include "macfleet.checkTime" (list "capi.externalSecret.refreshInterval" .Values.capi.externalSecret.refreshInterval) -}}
{{- with $manager.apiServerURL -}}
{{- if not (regexMatch "^https://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?(/[^ ?#]*)?$" .) -}}
{{- fail (printf "manager.apiServerURL %q: give the API server's address as a Mac reaches it, https://host[:port]" .) -}}
{{- end -}}
{{- if regexMatch "^https://(kubernetes(\\.default(\\.svc(\\.[^/:]+)?)?)?|[^/:]+\\.svc(\\.cluster\\.local)?)([:/]|$)" . -}}
{{- fail (printf "manager.apiServerURL %q names a Service, which a Mac cannot reach: give an address from outside the cluster" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A time above nothing, in whole numbers of units. */}}
{{- define "macfleet.checkTime" -}}
{{- $path := index . 0 -}}{{- $time := index . 1 -}}
{{- if not (and (regexMatch "^([0-9]+(h|m|s))+$" $time) (regexMatch "[1-9]" $time)) -}}
{{- fail (printf "%s %q: write a time above 0 in whole hours, minutes and seconds, such as 30s, 45m or 1h30m" $path $time) -}}
{{- end -}}
{{- end -}}
