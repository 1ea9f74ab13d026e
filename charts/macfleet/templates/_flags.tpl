{{/* The manager's flags, derived from the values: one source for the Deployment and for whoever starts the manager otherwise. */}}
{{- define "macfleet.managerFlags" -}}
{{- $flags := list
    "--leader-elect"
    (printf "--namespace=%s" .Release.Namespace)
    (printf "--default-adopt-pool-prefix=%s" .Values.pool.prefix)
    (printf "--inventory-interval=%s" .Values.manager.inventoryInterval)
    (printf "--vendor-qps=%v" .Values.manager.vendorQPS) -}}
{{- $zones := include "macfleet.zones" . | fromJsonArray -}}
{{- if $zones -}}{{- $flags = append $flags (printf "--orphan-reclaim-zones=%s" (join "," $zones)) -}}{{- end -}}
{{- if .Values.manager.apiServerURL -}}{{- $flags = append $flags (printf "--api-server-url=%s" .Values.manager.apiServerURL) -}}{{- end -}}
{{- $flags | toJson -}}
{{- end -}}
