{{/* The manager's flags, derived from the values: one source for the Deployment and for whoever starts the manager otherwise. */}}
{{- define "macfleet.managerFlags" -}}
{{- $flags := list
    "--leader-elect"
    (printf "--namespace=%s" .Release.Namespace)
    (printf "--default-adopt-pool-prefix=%s" .Values.pool.prefix)
    (printf "--inventory-interval=%s" .Values.manager.inventoryInterval)
    (printf "--drift-check-interval=%v" .Values.manager.driftCheckInterval)
    (printf "--vendor-qps=%v" .Values.manager.vendorQPS)
    (printf "--bootstrap-reboot-after=%d" (int .Values.manager.bootstrapRebootAfter))
    (printf "--bootstrap-max-attempts=%d" (int .Values.manager.bootstrapMaxAttempts))
    (printf "--bootstrap-recover-after=%v" .Values.manager.bootstrapRecoverAfter)
    (printf "--reinstall-timeout=%s" .Values.manager.reinstallTimeout)
    (printf "--orphan-reclaim-interval=%s" .Values.manager.reclaimInterval) -}}
{{- if not .Values.pool.trustUnseen -}}{{- $flags = append $flags "--trust-unseen=false" -}}{{- end -}}
{{- with include "macfleet.poolPrefixes" . -}}{{- $flags = append $flags (printf "--pool-prefixes=%s" .) -}}{{- end -}}
{{- $zones := include "macfleet.zones" . | fromJsonArray -}}
{{- if $zones -}}{{- $flags = append $flags (printf "--orphan-reclaim-zones=%s" (join "," $zones)) -}}{{- end -}}
{{- $flags = append $flags (printf "--claim-name-prefix=%s" (include "macfleet.claimNamePrefix" .)) -}}
{{- if .Values.orphanReclaim.activeReclaim -}}{{- $flags = append $flags (printf "--orphan-reclaim-claim-name-prefix=%s" (include "macfleet.claimNamePrefix" .)) -}}{{- end -}}
{{- if .Values.manager.apiServerURL -}}{{- $flags = append $flags (printf "--api-server-url=%s" .Values.manager.apiServerURL) -}}{{- end -}}
{{- $flags | toJson -}}
{{- end -}}
