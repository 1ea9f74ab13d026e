{{/* The pools of namespaces, as the manager's --pool-prefixes and the policies take them. */}}
{{- define "macfleet.checkPoolPrefixes" -}}
{{- $claimed := include "macfleet.claimNamePrefix" . -}}
{{- range $namespace, $prefixes := .Values.trust.poolPrefixes -}}
{{- $path := printf "trust.poolPrefixes.%s" $namespace -}}
{{- if not (regexMatch "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" $namespace) -}}
{{- fail (printf "trust.poolPrefixes: %q is no name of a namespace" $namespace) -}}
{{- end -}}
{{- range $prefix := $prefixes -}}
{{- if not (regexMatch "^[a-z0-9][a-z0-9-]{1,38}-$" $prefix) -}}
{{- fail (printf "%s: %q is no pool prefix: 3 to 40 lower-case letters, digits and dashes, a letter or digit first and a dash at the end, such as gpu-pool-" $path $prefix) -}}
{{- end -}}
{{- if or (hasPrefix $prefix $claimed) (and $.Values.orphanReclaim.activeReclaim (hasPrefix $claimed $prefix)) -}}
{{- fail (printf "%s: %q starts the names of claimed servers (%s…), or is started by them: choose another prefix" $path $prefix $claimed) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* namespace=prefix for each, separated by commas. */}}
{{- define "macfleet.poolPrefixes" -}}
{{- $pairs := list -}}
{{- range $namespace, $prefixes := .Values.trust.poolPrefixes -}}
{{- range $prefix := $prefixes -}}{{- $pairs = append $pairs (printf "%s=%s" $namespace $prefix) -}}{{- end -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}
