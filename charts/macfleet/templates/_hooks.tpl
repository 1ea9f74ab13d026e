{{/* What makes an object one of a hook: its kind, and its place among the hook's. */}}
{{- define "macfleet.hook" -}}
helm.sh/hook: {{ index . 0 }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* The labels of a hook's Pod: not the manager's, which its Service, its budget and its policy select. */}}
{{- define "macfleet.hookSelector" -}}
app.kubernetes.io/name: macfleet-{{ .hook }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{/* What a Pod of the chart reaches with manager.networkPolicy.restrictEgress: DNS, and what the values list. */}}
{{- define "macfleet.egress" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- with .Values.manager.networkPolicy.egress }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A Job that runs the manager's image once, and the ServiceAccount and the NetworkPolicy that it has: a
dict of root, name, hook, args, and deadline in seconds. Whoever includes it makes the
ClusterRole of that name. */}}
{{- define "macfleet.hookJob" -}}
{{- $root := .root -}}
{{- $labels := include "macfleet.labels" $root -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "macfleet.hook" (list .hook "-5") | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "macfleet.hook" (list .hook "-5") | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {{ .name }}}
subjects:
  - {kind: ServiceAccount, name: {{ .name }}, namespace: {{ $root.Release.Namespace }}}
{{- $policy := $root.Values.manager.networkPolicy }}
{{- if $policy.enabled }}
---
# Nobody reaches the Job, and it reaches the API server also where a namespace lets nobody out. Where
# that server is, only restrictEgress' list says.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "macfleet.hook" (list .hook "-5") | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "macfleet.hookSelector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  egress:
    {{- if $policy.restrictEgress }}
    {{- include "macfleet.egress" $root | nindent 4 }}
    {{- else }}
    - {}
    {{- end }}
{{- end }}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels: {{- $labels | nindent 4 }}
  annotations: {{- include "macfleet.hook" (list .hook "0") | nindent 4 }}
spec:
  backoffLimit: {{ .retries }}
  activeDeadlineSeconds: {{ .deadline }}
  template:
    metadata:
      labels: {{- include "macfleet.hookSelector" . | nindent 8 }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ .name }}
      {{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
      {{- with index $root.Values.manager $field }}
      {{ $field }}: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        seccompProfile: {type: RuntimeDefault}
      containers:
        - name: manager
          image: {{ include "macfleet.image" $root }}
          imagePullPolicy: {{ $root.Values.manager.image.pullPolicy }}
          args: {{- toYaml .args | nindent 12 }}
          # Shown by kubectl describe, and by helm where it tells of a failed hook.
          terminationMessagePolicy: FallbackToLogsOnError
          # The manager's, which the namespace's quota and limits let in.
          resources: {{- toYaml $root.Values.manager.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
{{- end -}}
