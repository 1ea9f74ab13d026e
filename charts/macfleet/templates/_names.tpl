{{/* The release's full name starts every object's name, and so every claimed server's. */}}
{{- define "macfleet.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "macfleet" .Release.Name -}}
{{- .Release.Name | trunc 30 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-macfleet" .Release.Name | trunc 30 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What every Machine of this release, and so every server it claims, is named with. */}}
{{- define "macfleet.claimNamePrefix" -}}
{{- .Values.orphanReclaim.claimNamePrefix | default (printf "%s-" (include "macfleet.fullname" .)) -}}
{{- end -}}

{{/* The name of a fleet's objects, of its label tuist.dev/fleet and of its Secrets. */}}
{{- define "macfleet.fleetName" -}}
{{- $root := index . 0 -}}{{- $key := index . 1 -}}{{- $fleet := index . 2 -}}
{{- $fleet.name | default (printf "%s-%s" (include "macfleet.fullname" $root) $key) -}}
{{- end -}}

{{- define "macfleet.cluster" -}}
{{- .Values.cluster.name | default (include "macfleet.fullname" .) -}}
{{- end -}}

{{/* What selects the manager's Pods. A Deployment's selector never changes. */}}
{{- define "macfleet.managerSelector" -}}
app.kubernetes.io/name: macfleet
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "macfleet.labels" -}}
app.kubernetes.io/name: macfleet
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* The zones of all fleets, each once, sorted. */}}
{{- define "macfleet.zones" -}}
{{- $zones := list -}}
{{- range .Values.fleets -}}{{- $zones = append $zones .zone -}}{{- end -}}
{{- $zones | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/* The manager's image. The digest is that of the image that the chart came with, also in a registry of your own: not of a tag of your own. */}}
{{- define "macfleet.image" -}}
{{- $image := .Values.manager.image -}}
{{- $digest := $image.digest | default (index .Chart.Annotations "macfleet.dev/image-digest") -}}
{{- $image.repository -}}:{{- $image.tag | default .Chart.AppVersion -}}
{{- if and $digest (not $image.tag) -}}@{{- $digest -}}{{- end -}}
{{- end -}}
